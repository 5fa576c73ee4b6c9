"""What a log means, for a terminal of 80 columns: the root first, then symptoms and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from xlaport.diagnostics import counted
from xlaport.exhaustion import Breakdown
from xlaport.explain.pages import Entry, Role
from xlaport.explain.recognise import Diagnosis, Found
from xlaport.explain.tracebacks import Frame
from xlaport.reports.terminal import WIDTH, wrapped, writer

LABELS = {"Cause": "means", "Check": "check", "Remedy": "do", "Reference": "see"}
INDENT = 10
"""Columns of the labels."""

STYLES = {Role.CAUSE: "bold red", Role.SYMPTOM: "bold yellow", Role.NOTE: "bold cyan"}
TITLES = {Role.CAUSE: "", Role.SYMPTOM: " (follows from something else)", Role.NOTE: " (a note: the program goes on)"}
IN_FULL = 6
"""Messages that are explained in full; of the others the summary is said."""

ALLOCATIONS = 10

Write = Callable[[str, str], None]


def diagnosis(found: Diagnosis, near: tuple[Entry, ...], name: str, out: TextIO) -> None:
    write = writer(out)
    says = counted(len(found.found), "known message") if found.found else "no message that is known"
    write(f"{name}: {counted(found.lines, 'line')}, {says}", "bold")
    for number, one in enumerate(found.found, 1):
        write("", "")
        message(number, one, name, write, in_full=number <= IN_FULL)
    if found.unrecognised:
        write("", "")
        heading("not known: the last exception", "bold magenta", write)
        labelled("at", f"{name}:{found.unrecognised.line}", write)
        labelled("message", found.unrecognised.message, write)
        place(found.unrecognised.frame, write)
    if found.leaves_questions:
        nearest(near, write)


def message(number: int, one: Found, name: str, write: Write, in_full: bool) -> None:
    entry = one.entry
    heading(f"{number}. {entry.code} {entry.summary}{TITLES[entry.role]}", STYLES[entry.role], write)
    again = f", and {counted(one.count - 1, 'line')} more, the last at {one.last}" if one.count > 1 else ""
    labelled("at", f"{name}:{one.line}{again}", write)
    if not in_full:
        return
    labelled("message", one.message, write)
    place(one.frame, write)
    memory = one.breakdown
    if memory:
        table(memory, write)
    for title, label in LABELS.items():
        labelled(label, entry.sections[title], write)
    if entry.rules:
        labelled("rules", ", ".join(f"xlaport rule {code}" for code in entry.rules), write)


def place(frame: Frame | None, write: Write) -> None:
    if frame:
        where = f"{frame.file}:{frame.line}" + (f" in {frame.function}" if frame.function and frame.function != "<module>" else "")
        labelled("code", f"{where}: {frame.code}" if frame.code else where, write)


def nearest(near: tuple[Entry, ...], write: Write) -> None:
    write("", "")
    if not near:
        write("No entry is near. xlaport explain --list has all of them.", "")
        return
    write("The nearest entries (xlaport explain --entry CODE):", "")
    for entry in near:
        for line in wrapped(f"  {entry.code} {entry.summary}", " " * 9):
            write(line, "")


def heading(text: str, style: str, write: Write) -> None:
    for line in wrapped(text, "   "):
        write(line, style)


def labelled(label: str, text: str, write: Write) -> None:
    """A label in the margin and its text beside it; paragraphs and points of a list stay apart."""
    first = True
    for paragraph in points(text):
        hanging = " " * (INDENT + 2 * paragraph.startswith("- "))
        start = f"  {label:<{INDENT - 2}}" if first else " " * INDENT
        for line in wrapped(start + paragraph, hanging):
            write(line, "")
        first = False


def points(text: str) -> Iterable[str]:
    """Paragraphs and list items of Markdown, each on one line."""
    joined: list[str] = []
    for line in text.splitlines():
        fresh = not joined or not line.strip() or line.lstrip().startswith("- ") or joined[-1] == ""
        if fresh:
            joined.append(line.strip())
        else:
            joined[-1] = f"{joined[-1]} {line.strip()}"
    return [line for line in joined if line]


def table(memory: Breakdown, write: Write) -> None:
    """Gibibytes, aligned: what was needed, what it is made of, and the largest allocations."""
    limit = "free" if memory.is_free else f"{memory.space.upper()} there is"
    rows = [("asked for" if memory.is_free else "needed", memory.needed), *((f"  {name}", bytes) for name, bytes in memory.kinds), (limit, memory.limit)]
    rows.append(("missing", memory.needed - memory.limit))
    write("", "")
    write(f"{'':{INDENT}}{'memory':<24}{'GiB':>9}", "bold")
    for name, bytes in rows:
        write(f"{'':{INDENT}}{name:<24}{gib(bytes):>9}", "")
    if memory.allocations:
        write("", "")
        write(f"{'':{INDENT}}{'largest allocations':<24}{'GiB':>9}  {'padding':>7}  made by", "bold")
    for one in memory.allocations[:ALLOCATIONS]:
        padding = f"{100 * one.padding / one.size:.0f}%" if one.padding and one.size else ""
        by = one.source or one.operator or one.type
        room = WIDTH - INDENT - 24 - 9 - 2 - 7 - 2
        write(f"{'':{INDENT}}{one.shape or '?':<24.24}{gib(one.size):>9}  {padding:>7}  {by if len(by) <= room else '...' + by[3 - room :]}", "")
    hidden = len(memory.allocations) - ALLOCATIONS
    if hidden > 0:
        write(f"{'':{INDENT}}... and {hidden} more (--json has them)", "dim")
    write("", "")


def gib(bytes: int) -> str:
    return f"{bytes / 2**30:.2f}" if abs(bytes) >= 2**30 / 100 else f"{bytes / 2**30:.4f}"


def listing(entries: tuple[Entry, ...], out: TextIO) -> None:
    write = writer(out)
    for entry in entries:
        for line in wrapped(f"{entry.code} {entry.summary} [{entry.area}]", " " * 7):
            write(line, "")


def page(entry: Entry, out: TextIO) -> None:
    """All that is known of one, with its messages."""
    write = writer(out)
    heading(f"{entry.code} {entry.name}: {entry.summary}", "bold", write)
    for title, label in LABELS.items():
        labelled(label, entry.sections[title], write)
    for example in entry.messages:
        write("", "")
        write(f"for example ({example.source}):", "")
        for line in example.text.splitlines():
            write(f"  {line}", "dim")
