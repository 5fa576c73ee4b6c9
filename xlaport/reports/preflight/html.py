"""Answers of `xlaport preflight` as one HTML section: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TextIO

from xlaport.preflight.result import Document, Result, Verdict
from xlaport.reports import html
from xlaport.reports.preflight import markdown, text as words

COLOURS = {
    "parameter": "#3b6fb6", "optimizer": "#7aa6d8", "gradient": "#9db8a0", "batch": "#c8a24a", "buffer": "#8d8d8d", "state": "#8d8d8d", "padding": "#cccccc",
    "temporaries": "#c0563f", "outputs": "#6a994e", "code": "#6b4e9b",
}

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Titles of columns, and rows."""


class Piece(NamedTuple):
    """One kind of memory, as wide as its part of the limit; `left` and `width` in per cent."""

    word: str
    gib: str
    left: str
    width: str
    colour: str


def preflight(document: Document, out: TextIO) -> None:
    print(html.part("preflight_section.html", "preflight_section", view(document)), file=out)


def view(document: Document) -> dict[str, Any]:
    """What the template shows."""
    shown = document.shown
    return {
        "verdict": words.WORDS[shown.verdict].lower(),
        "fits": shown.verdict is Verdict.FITS,
        "slice": str(shown.topology),
        "slices": (markdown.ANSWERS, [markdown.row(str(result.topology), result) for result in document.results]),
        "memory": list(pieces(shown)) if shown.memory and not shown.memory.exceeded else [],
        "times": words.times(shown) if shown.time else "",
        "tables": [(header, rows) for header, rows in tables(document, shown) if rows],
        "notes": shown.notes,
        "provenance": words.provenance(shown),
    }


def tables(document: Document, shown: Result) -> Iterable[Table]:
    yield markdown.OPERATIONS, [(words.SITES[site.kind], site.operator, words.place(site.line)) for site in shown.sites]
    yield markdown.BUFFERS, [(words.gib(buffer.size), ", ".join(buffer.shapes[:2]), words.where(buffer)) for buffer in shown.buffers]
    yield markdown.ATTEMPTS, [markdown.row(attempt.what, attempt.result) for attempt in document.attempts]


def pieces(result: Result) -> Iterator[Piece]:
    left = 0.0
    for kind, size in words.parts(result).items():
        width = min(100.0 - left, 100.0 * size / result.memory.limit)
        yield Piece(words.KINDS[kind][0], words.gib(size), f"{left:.2f}", f"{width:.2f}", COLOURS[kind])
        left += width
