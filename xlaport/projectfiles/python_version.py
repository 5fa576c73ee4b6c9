"""Declared Python versions: torch and the target's package have an oldest one they are built for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles.packages import CLAUSE, version
from xlaport.projectfiles.view import Edit, View

LOWER = re.compile(r"(?:>=|\^|~=)\s*(?P<version>\d+(?:\.\d+)*)")


def findings(view: View, start: int, end: int) -> Iterator[Finding]:
    """For a version range such as `>=3.7,<4` at `start:end`."""
    text, oldest, needing = view.text[start:end], version(view.target.python), needs(view)
    clauses = [(operator, version(number)) for operator, number in CLAUSE.findall(text)]
    upper_excludes = any(operator in {"<", "<="} and number <= oldest for operator, number in clauses)
    exact = any(operator in {"==", "~="} and number[:2] < oldest for operator, number in clauses)
    lower = LOWER.search(text)
    if upper_excludes or exact:
        yield view.finding("XP856", start, end, f"Python {text.strip()} is too old: {needing} {view.target.python} or newer")
    elif lower and version(lower["version"]) < oldest:
        edit = Edit(start + lower.start("version"), start + lower.end("version"), view.target.python)
        yield view.finding("XP856", start, end, f"Python {text.strip()} is raised to {view.target.python}, the oldest {needing.removesuffix(' need')} run on", [edit])


def needs(view: View) -> str:
    """`torch 2.9 and torch_xla 2.9 need`: who asks for it."""
    return f"torch {view.target.torch[0]} and {view.target.name} {view.target.versions} need"
