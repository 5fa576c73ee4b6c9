"""Findings for programs. What is here stays: fields are added, never changed or taken away within one `version`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TextIO

from xlaport.diagnostics import Diagnostic, LintReport, counts

VERSION = 1


def lint(report: LintReport, out: TextIO) -> None:
    """`{"version": 1, "findings": [...]}`; lines and columns count from 1, columns in characters, ends are exclusive."""
    print(json.dumps({"version": VERSION, "findings": [finding(found) for found in report.diagnostics]}, indent=2), file=out)


def finding(found: Diagnostic) -> dict:
    record = asdict(found)
    del record["text"]  # the line itself, which is in the file
    return record


def statistics(report: LintReport, out: TextIO) -> None:
    rows = [{"code": code, "name": name, "count": count} for code, name, count in counts(report)]
    print(json.dumps({"version": VERSION, "statistics": rows}, indent=2), file=out)
