"""A migration as findings on the files that are on disk now, for what annotates lines: SARIF and GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from xlaport.diagnostics import Diagnostic, LintReport, Repair
from xlaport.findings import Finding
from xlaport.reports.migrate.model import Report, Status


def findings(report: Report) -> LintReport:
    """What is left for a person, most dangerous first; the idioms that would be edited, if nothing was written; what steps wait for."""
    found = (*left(report), *(() if report.written else unwritten(report)), *waits(report))
    return LintReport(tuple(found), len(report.files), failures=failures(report))


def left(report: Report) -> Iterator[Diagnostic]:
    for item in report.work:
        waits = f"; its edit waits: {item.because}" if item.because else ""
        yield diagnostic(report, report.on_disk(item.finding), waits)


def unwritten(report: Report) -> Iterator[Diagnostic]:
    return (diagnostic(report, finding) for finding in report.applied)


def waits(report: Report) -> Iterator[Diagnostic]:
    return (diagnostic(report, report.on_disk(finding)) for finding in report.steps)


def diagnostic(report: Report, finding: Finding, more: str = "") -> Diagnostic:
    """Edits are made together by `migrate`: none is offered. The line itself is not in the report: the message takes its place."""
    place, repair = finding.location, Repair(finding.grade.value) if finding.fix else None
    return Diagnostic(
        finding.code, finding.name, finding.severity.value, tuple(effect.value for effect in finding.effects), finding.confidence.value,
        shown(report, finding.path), place.line, place.column, place.end_line, place.end_column, finding.message + more, repair, finding.message, place.cell,
    )


def failures(report: Report) -> tuple[str, ...]:
    return tuple(f"{shown(report, file.name)}: {file.reason}" for file in report.files if file.status is Status.FAILED)


def shown(report: Report, name: str) -> str:
    """A file as the working directory reaches it."""
    return (PurePosixPath(report.folder) / name).as_posix()
