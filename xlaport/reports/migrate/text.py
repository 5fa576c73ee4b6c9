"""What a migration did, for people: files, counts, and what is left, the most dangerous first."""

from __future__ import annotations

from typing import TextIO

from xlaport.findings import Danger, Finding
from xlaport.reports.migrate.model import Report, Status, fullest, place
from xlaport.reports.terminal import WIDTH, writer

SHOWN = 20
"""Manual items printed, equal ones as one; the report file lists all of them."""

COMPLETE = (".html", ".json", ".md", ".sarif")
"""Endings of the forms that list all that is left."""

STYLES = {Danger.SILENT: "bold red", Danger.LOUD: "red", Danger.SLOW: "yellow", Danger.NONE: "dim"}
LABELS = {
    Danger.SILENT: "silently wrong if left",
    Danger.LOUD: "stops with an error",
    Danger.SLOW: "slow",
    Danger.NONE: "harmless",
}


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    """Files, the honest line, and what is left, most dangerous first. `others` are the files that this report is written to."""
    write = writer(out)
    write(f"files: {report.files_line}", "")
    if report.skipped_line:
        write(f"  skipped: {report.skipped_line}", "dim")
    for file in report.files:
        if file.status is Status.FAILED:
            write(f"  failed: {file.name}: {file.reason}", "red")
    write(report.honest_line, "bold")
    for note in report.notes:
        write(f"note: {note}", "cyan")
    left = report.manual
    if left:
        write("", "")
    danger, groups = None, equal_items(left)
    for first, *further in groups[:SHOWN]:
        if first.danger is not danger:
            danger = first.danger
            write(f"{LABELS[danger]}:", STYLES[danger])
        write(f"  {item(first)}", "")
        if further:
            write(further_places(further), "dim")
    hidden = sum(map(len, groups[SHOWN:]))
    if hidden:
        name = fullest(others, COMPLETE)
        write(f"  ... and {hidden} more, listed {f'in {name}' if name else 'with --report FILE'}", "dim")
    included(report, out)


def included(report: Report, out: TextIO) -> None:
    """What other verbs found, as they say it."""
    if report.verify:
        from xlaport.reports.verify import text as verify

        for found in report.verify:
            print(file=out)
            verify.verification(found.verification, found.pair, out)
    if report.preflight:
        from xlaport.reports.preflight import text as preflight

        for found in report.preflight:
            print(file=out)
            preflight.preflight(found, out)


def equal_items(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one rule that say the same, together where the first of them stands."""
    groups: dict[tuple[Danger, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.danger, finding.code, finding.message), []).append(finding)
    return list(groups.values())


def further_places(findings: list[Finding]) -> str:
    """`    and 3 more: a.py:3, b.py:8, ...`, as many places as fit on a line."""
    line, rest = f"    and {len(findings)} more", list(dict.fromkeys(place(finding) for finding in findings))
    for number, name in enumerate(rest):
        longer = f"{line}{', ' if number else ': '}{name}"
        if len(longer) + len(", ...") * (number + 1 < len(rest)) > WIDTH:
            return f"{line}{', ' if number else ': '}..."
        line = longer
    return line


def item(finding: Finding) -> str:
    return f"{place(finding)}: {finding.message} [xlaport rule {finding.code}]"
