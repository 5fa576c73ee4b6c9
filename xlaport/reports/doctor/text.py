"""What `doctor` found, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from xlaport.diagnostics import counted
from xlaport.doctor.check import Check, Status
from xlaport.reports.terminal import wrapped, writer

MARGIN = 9
"""Columns of the status."""

STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.ERROR: "bold red"}


def doctor(found: Iterable[Check], out: TextIO) -> list[Check]:
    """A line or more for each check, as it is done; then how many there are of each kind."""
    write, told = writer(out), []
    for check in found:
        told.append(check)
        for line in wrapped(f"{check.status.value:<{MARGIN}}{check.said}", " " * MARGIN):
            write(line, STYLES[check.status])
        if check.mend:
            for line in wrapped(f"{'':{MARGIN}}-> {check.mend}", " " * (MARGIN + len("-> "))):
                write(line, "")
        out.flush()
    counts = {status: sum(check.status is status for check in told) for status in Status}
    write(f"{counted(counts[Status.ERROR], 'error')}, {counted(counts[Status.WARNING], 'warning')}, {counts[Status.OK]} ok", "bold")
    return told
