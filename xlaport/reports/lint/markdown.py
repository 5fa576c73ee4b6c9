"""Findings as a Markdown table, for a comment or a job's summary."""

from __future__ import annotations

from collections import defaultdict
from typing import TextIO

from xlaport.diagnostics import SEVERITIES, Diagnostic, LintReport, counted, counts
from xlaport.reports.markdown import cell, code_span, prose

FIXES = {"safe": "--fix", "unsafe": "--unsafe-fixes", "required": "xlaport migrate"}


def lint(report: LintReport, out: TextIO) -> None:
    print("\n".join(lines(report)), file=out)


def lines(report: LintReport) -> list[str]:
    found = ["# xlaport lint", "", summary(report), ""]
    by_severity: dict[str, list[Diagnostic]] = defaultdict(list)
    for item in report.diagnostics:
        by_severity[item.severity].append(item)
    for severity in SEVERITIES:
        if by_severity[severity]:
            found += [f"## {severity.capitalize()}s", "", "| where | what | effects | rule | fix |", "|-|-|-|-|-|"]
            found += [*map(row, by_severity[severity]), ""]
    return found[:-1]


def summary(report: LintReport) -> str:
    return f"{counted(len(report.diagnostics), 'finding')} in {counted(report.files, 'file')}."


def row(found: Diagnostic) -> str:
    fix = FIXES[found.fix.applicability] if found.fix else ""
    where = code_span(found.place)
    return f"| {cell(where)} | {cell(prose(found.message))} | {', '.join(found.effects)} | {found.code} {found.name} | {fix} |"


def statistics(report: LintReport, out: TextIO) -> None:
    rows = [f"| {count} | {code} | {name} |" for code, name, count in counts(report)]
    print("\n".join(["# xlaport lint", "", summary(report), "", "| count | rule | name |", "|-|-|-|", *rows]), file=out)
