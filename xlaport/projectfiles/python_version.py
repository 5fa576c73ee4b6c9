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
    text, oldest, wanting = view.text[start:end], version(view.target.python), needing(view)
    clauses = [(operator, version(number)) for operator, number in CLAUSE.findall(text)]
    upper_excludes = any(operator in {"<", "<="} and number <= oldest for operator, number in clauses)
    exact = any(operator in {"==", "~="} and number[:2] < oldest for operator, number in clauses)
    lower = LOWER.search(text)
    if upper_excludes or exact:
        yield view.finding("XP856", start, end, f"Python {text.strip()} is too old: {wanting} need {view.target.python} or newer")
    elif lower and version(lower["version"]) < oldest:
        edit = Edit(start + lower.start("version"), start + lower.end("version"), view.target.python)
        yield view.finding("XP856", start, end, f"Python {text.strip()} is raised to {view.target.python}, the oldest {wanting} run on", [edit])


def needing(view: View) -> str:
    """`torch 2.9 and torch_xla 2.9`: what asks for it."""
    return f"torch {view.target.torch[0]} and {view.target.name} {view.target.versions}"
