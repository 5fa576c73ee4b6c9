"""Annotations of GitHub Actions: workflow commands on standard output."""

from __future__ import annotations

from typing import TextIO

from xlaport.diagnostics import Diagnostic, LintReport

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def lint(report: LintReport, out: TextIO) -> None:
    for found in report.diagnostics:
        print(annotation(found), file=out)


def failure(file: str, reason: str) -> str:
    """Of a file that could not be handled."""
    return f"::error title=xlaport,file={in_property(file)}::{in_message(f'{file}: {reason}')}"


def annotation(found: Diagnostic) -> str:
    first, last = (found.line, found.end_line) if not found.cell else (1, 1)  # lines of a cell are not those of the file
    properties = {"title": f"xlaport ({found.code})", "file": found.file, "line": first, "endLine": last}
    if found.end_line == found.line and not found.cell:  # GitHub refuses columns of a range over several lines
        properties |= {"col": found.column, "endColumn": found.end_column}
    listed = ",".join(f"{name}={in_property(str(value))}" for name, value in properties.items())
    return f"::{LEVELS[found.severity]} {listed}::{in_message(f'{found.place}: {found.code} {found.message}')}"


def in_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def in_property(text: str) -> str:
    return in_message(text).replace(":", "%3A").replace(",", "%2C")
