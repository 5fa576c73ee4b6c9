"""A migration in every form."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

FORMS = ("text", "json", "sarif", "github", "markdown", "comment", "html")
"""Modules of this package, imported when they are asked for."""


def form(name: str) -> Callable:
    """`migration(report, out, others)` of a form; `others`: names of all files that the report is written to, to point to."""
    return import_module(f"{__name__}.{name}").migration


def printed(report, name: str, others: tuple[str, ...] = ()) -> str:
    """The report in a form, for a file."""
    out = io.StringIO()
    form(name)(report, out, others)
    return out.getvalue()


def texts(report, forms: Mapping[Path, str]) -> dict[Path, str]:
    """The report for each of the files that it is written to, which point to each other."""
    others = tuple(map(str, forms))
    return {path: printed(report, form, others) for path, form in forms.items()}
