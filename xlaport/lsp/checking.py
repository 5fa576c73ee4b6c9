"""What `lint` says of one file as an editor holds it, saved or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from xlaport import baseline, collector
from xlaport.analysis.project import Project
from xlaport.diagnostics import Diagnostic
from xlaport.findings import Finding
from xlaport.lint import check, gather
from xlaport.lint.check import Linter
from xlaport.ruleset.schema import Rule
from xlaport.source import BOM, NOTEBOOK, SourceFile


@dataclass(frozen=True)
class Checked:
    """The answer for one version of a file. `project` is that file alone with what it imports.

    `source` is None, and `diagnostics` says why, where the text cannot be read; both are empty for a file the settings exclude.
    """

    linter: Linter
    project: Project
    source: SourceFile | None
    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    """Of each finding its form for reports, in the same order."""

    def rule(self, code: str) -> Rule | None:
        """The rule of a finding, or that a comment names; the project's own among them."""
        return next((rule for rule in self.linter.rules if rule.code == code), None)


def raw_of(path: Path, text: str) -> bytes:
    """An editor's text as a file: a BOM says that it is UTF-8, whatever encoding the file declares for its bytes on disk."""
    body = text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")
    return body if path.suffix == NOTEBOOK else BOM + body


def check_file(path: Path, raw: bytes, others: dict[Path, bytes], python_rules: tuple[Path, ...] = ()) -> Checked:
    """Findings as `xlaport lint - --stdin-filename PATH` has them. `others`: open files, whose text goes before that on disk.

    Raises `UserError` for settings or rule pages that are wrong.
    """
    gathered = gather.from_text(raw, path)
    gathered = replace(gathered, context={file: others.get(file, body) for file, body in gathered.context.items()})
    linter = check.linter_for(gathered.settings, gathered.base, python_rules)
    sources, unread = gathered.decoded()
    project = Project(gathered.root, sources)
    if path in unread:
        problem = check.undecodable(baseline.shown(path), unread[path])
        return Checked(linter, project, None, (), (problem,) if linter.settings.selects(problem.code) else ())
    if path not in sources or path not in gathered.contents:
        return Checked(linter, project, None)
    source = sources[path]
    with collector.paused():
        found = tuple(linter.findings(project, path))
    return Checked(linter, project, source, found, tuple(check.diagnostic(source, finding, {}) for finding in found))
