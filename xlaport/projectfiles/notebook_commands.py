"""Commands in the cells of a notebook: `!pip install`, `%pip install`, `%env`, `%%bash`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlaport.findings import Finding
from xlaport.projectfiles import shell
from xlaport.projectfiles.shell_words import commands
from xlaport.projectfiles.view import View


def check(view: View) -> Iterator[Finding]:
    """Findings of a notebook as it is written (`CellsAsWritten`)."""
    for part in view.source.shell:
        for command in commands(view.text, part.start, part.end):
            for finding in shell.command_findings(view, command):
                yield replace(finding, fix=None) if part.in_block and takes_lines(finding) else finding


def takes_lines(finding: Finding) -> bool:
    """Of a block of Python a line that goes may be all there is."""
    return finding.fix is not None and finding.code in {"XP860", "XP861"}
