"""Findings for people: a line each, and a summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from xlaport.diagnostics import SEVERITIES, Diagnostic, LintReport, counted, counts
from xlaport.reports.terminal import writer

SEVERITY_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}
FIXES = {"safe": "Fix available", "unsafe": "Fix available (unsafe-fixes)", "required": "Fix available (xlaport migrate)"}
FIXABLE = {"safe": "with --fix", "unsafe": "with --fix --unsafe-fixes", "required": "with xlaport migrate"}


def lint(report: LintReport, out: TextIO) -> None:
    """`path:line:column: CODE message`, one line a finding, and a summary."""
    write = writer(out)
    for found in report.diagnostics:
        write(finding_line(found), SEVERITY_STYLES[found.severity])
    lint_summary(report, write)


def finding_line(found: Diagnostic) -> str:
    fix = f" {FIXES[found.fix.applicability]}" if found.fix else ""
    return f"{found.place}: {found.code} {found.message} [rule: xlaport rule {found.code}]{fix}"


def statistics(report: LintReport, out: TextIO) -> None:
    """How often each rule found something, the most frequent first."""
    write = writer(out)
    for code, name, count in counts(report):
        write(f"{count:>7}  {code}  {name}", "")
    lint_summary(report, write)


def lint_summary(report: LintReport, write: Callable[[str, str], None]) -> None:
    for note in report.notes:
        write(f"note: {note}", "cyan")
    severities = ", ".join(counted(count, severity) for severity in SEVERITIES if (count := report.severities[severity]))
    files = counted(report.files, "file")
    if not report.diagnostics:
        write(f"no findings in {files}", "bold")
        return
    fixable = ", ".join(f"{report.fixable[kind]} {how}" for kind, how in FIXABLE.items() if report.fixable[kind])
    found = counted(len(report.diagnostics), "finding")
    write(f"{found} in {files} ({severities}){'; fixable: ' + fixable if fixable else ''}", "bold")
