"""Answers of `xlaport preflight` as a section of a Markdown report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from xlaport.preflight.result import Document, Result
from xlaport.reports.markdown import cell, code_span, prose
from xlaport.reports.preflight import text as words

ANSWERS = ("slice", "verdict", "GiB a device", "step at least", "cost model", "reason")
"""Titles of what `row` gives."""

OPERATIONS = ("operations that", "operator", "line")
BUFFERS = ("largest buffers, GiB", "shapes", "made by")
ATTEMPTS = ("tried by compiling", *ANSWERS[1:])


def preflight(document: Document, out: TextIO) -> None:
    print("\n".join(section(document)), file=out)


def section(document: Document) -> list[str]:
    """A heading, the slices asked about, what the shown one holds, and what would help."""
    shown = document.shown
    lines = ["## Preflight", "", *slices(document), ""]
    lines += [f"{words.times(shown)}.", ""] if shown.time else []
    lines += memory(shown) + places(shown) + buffers(shown) + helps(document)
    lines += [f"- {prose(note)}" for note in shown.notes] + ([""] if shown.notes else [])
    said = words.provenance(shown)
    return lines + ([f"{said}."] if said else [])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(header)
    return [f"| {' | '.join(titles)} |", "|" + "-|" * len(titles), *(f"| {' | '.join(cell(value) for value in row)} |" for row in rows)]


def slices(document: Document) -> list[str]:
    return table(ANSWERS, (map(prose, row(str(result.topology), result)) for result in document.results))


def row(name: str, result: Result) -> tuple[str, ...]:
    held = result.memory
    return (
        name,
        words.WORDS[result.verdict].lower() + (" (a guess)" if result.guess else ""),
        f"{words.held_of(held)} of {words.gib(held.limit)}" if held and held.total else "",
        words.least(result),
        words.modelled(result),
        result.reason,
    )


def memory(result: Result) -> list[str]:
    if not result.memory or result.memory.exceeded:
        return []
    parts = words.parts(result)
    return [*table(("HBM", "GiB"), ((words.KINDS[kind][0], words.gib(size)) for kind, size in parts.items())), ""]


def places(result: Result) -> list[str]:
    if not result.sites:
        return []
    rows = ((words.SITES[site.kind], code_span(site.operator), code_span(words.place(site.line))) for site in result.sites)
    return [*table(OPERATIONS, rows), ""]


def buffers(result: Result) -> list[str]:
    if not result.buffers:
        return []
    rows = ((words.gib(buffer.size), code_span(", ".join(buffer.shapes[:2])), prose(words.where(buffer))) for buffer in result.buffers)
    return [*table(BUFFERS, rows), ""]


def helps(document: Document) -> list[str]:
    if not document.attempts:
        return []
    rows = (map(prose, row(attempt.what, attempt.result)) for attempt in document.attempts)
    return [*table(ATTEMPTS, rows), ""]
