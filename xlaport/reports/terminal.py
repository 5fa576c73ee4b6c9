"""Text for people. rich is imported only when the output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TextIO

from xlaport.diagnostics import SEVERITIES, Diagnostic, LintReport, counted, counts
from xlaport.errors import one_line
from xlaport.findings import Danger, Finding
from xlaport.reports.model import Report, Status

SHOWN = 20
"""Manual items printed, equal ones as one; the report file lists all of them."""

WIDTH = 80
"""Columns of what is wrapped or cut, on a terminal or not."""

STYLES = {Danger.SILENT: "bold red", Danger.LOUD: "red", Danger.SLOW: "yellow", Danger.NONE: "dim"}
LABELS = {
    Danger.SILENT: "silently wrong if left",
    Danger.LOUD: "stops with an error",
    Danger.SLOW: "slow",
    Danger.NONE: "harmless",
}

SEVERITY_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}
FIXES = {"safe": "Fix available", "unsafe": "Fix available (unsafe-fixes)", "required": "Fix available (xlaport migrate)"}
FIXABLE = {"safe": "with --fix", "unsafe": "with --fix --unsafe-fixes", "required": "with xlaport migrate"}


def summary(report: Report, out: TextIO, report_file: str | None = None) -> None:
    """Files, the honest line, and what is left, most dangerous first."""
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
    for first, *others in groups[:SHOWN]:
        if first.danger is not danger:
            danger = first.danger
            write(f"{LABELS[danger]}:", STYLES[danger])
        write(f"  {item(first)}", "")
        if others:
            write(further_places(others), "dim")
    hidden = sum(map(len, groups[SHOWN:]))
    if hidden:
        where = f"in {report_file}" if report_file else "with --report FILE"
        write(f"  ... and {hidden} more, listed {where}", "dim")


def equal_items(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one rule that say the same, together where the first of them stands."""
    groups: dict[tuple[Danger, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.danger, finding.code, finding.message), []).append(finding)
    return list(groups.values())


def further_places(findings: list[Finding]) -> str:
    """`    and 3 more: a.py:3, b.py:8, ...`, as many places as fit on a line."""
    line, rest = f"    and {len(findings)} more", list(dict.fromkeys(place_of(finding) for finding in findings))
    for number, place in enumerate(rest):
        longer = f"{line}{', ' if number else ': '}{place}"
        if len(longer) + len(", ...") * (number + 1 < len(rest)) > WIDTH:
            return f"{line}{', ' if number else ': '}..."
        line = longer
    return line


def place_of(finding: Finding) -> str:
    return f"{finding.path}:{finding.location.shown}"


def item(finding: Finding) -> str:
    return f"{place_of(finding)}: {finding.message} [xlaport rule {finding.code}]"


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


def wrapped(text: str, hanging: str) -> list[str]:
    """Lines of at most `WIDTH` columns, words and flags whole; those after the first begin with `hanging`."""
    import textwrap  # here, as most runs wrap nothing

    return textwrap.wrap(text, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def writer(out: TextIO) -> Callable[[str, str], None]:
    """A function that prints a line in a style: through rich on a terminal, plain otherwise."""
    if not out.isatty():
        return lambda text, style: print(one_line(text), file=out)
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=False)
    return lambda text, style: console.print(Text(one_line(text), style=style))


@contextmanager
def progress(total: int):
    """A progress bar on stderr once the work has taken a second; nothing when stderr is no terminal."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda path: None
        return
    from rich.console import Console
    from rich.progress import Progress

    import time

    started = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    state = {"task": None, "done": 0}

    def advance(path) -> None:
        state["done"] += 1
        if state["task"] is None and time.monotonic() - started > 1:
            bar.start()
            state["task"] = bar.add_task("migrating", total=total, completed=state["done"])
        elif state["task"] is not None:
            bar.update(state["task"], completed=state["done"])

    try:
        yield advance
    finally:
        if state["task"] is not None:
            bar.stop()
