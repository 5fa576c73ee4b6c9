"""Declared Python versions: torch 2.9 and torch_xla 2.9 need Python 3.10 or newer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xlaport.findings import Finding
from xlaport.projectfiles.packages import CLAUSE, version
from xlaport.projectfiles.view import Edit, View

OLDEST = (3, 10)
LOWER = re.compile(r"(?:>=|\^|~=)\s*(?P<version>\d+(?:\.\d+)*)")


def findings(view: View, start: int, end: int) -> Iterator[Finding]:
    """For a version range such as `>=3.7,<4` at `start:end`."""
    text = view.text[start:end]
    clauses = [(operator, version(number)) for operator, number in CLAUSE.findall(text)]
    upper_excludes = any(operator in {"<", "<="} and number <= OLDEST for operator, number in clauses)
    exact = any(operator in {"==", "~="} and number[:2] < OLDEST for operator, number in clauses)
    lower = LOWER.search(text)
    if upper_excludes or exact:
        yield view.finding("XP856", start, end, f"Python {text.strip()} is too old: torch 2.9 and torch_xla 2.9 need 3.10 or newer")
    elif lower and version(lower["version"]) < OLDEST:
        edit = Edit(start + lower.start("version"), start + lower.end("version"), "3.10")
        yield view.finding("XP856", start, end, f"Python {text.strip()} is raised to 3.10, the oldest torch 2.9 and torch_xla 2.9 run on", [edit])
