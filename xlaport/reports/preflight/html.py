"""Answers of `xlaport preflight` as one HTML section: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TextIO

from xlaport.preflight.result import Document, Result
from xlaport.reports.preflight import markdown, text as words

COLOURS = {
    "parameter": "#3b6fb6", "optimizer": "#7aa6d8", "batch": "#c8a24a", "buffer": "#8d8d8d", "state": "#8d8d8d", "padding": "#cccccc",
    "temporaries": "#c0563f", "outputs": "#6a994e", "code": "#6b4e9b",
}


def preflight(document: Document, out: TextIO) -> None:
    print(section(document), file=out)


def section(document: Document) -> str:
    shown = document.shown
    parts = ["<section class=\"preflight\">", "<h2>Preflight</h2>"]
    parts.append(table(("slice", "verdict", "GiB a device", "step at least", "cost model", "reason"), (markdown.row(str(result.topology), result) for result in document.results)))
    if shown.memory and not shown.memory.exceeded:
        parts.append(bar(shown))
    if shown.time:
        parts.append(f"<p>{escape(words.times(shown))}.</p>")
    if shown.sites:
        parts.append(table(("operations that", "operator", "line"), ((words.SITES[site.kind], site.operator, words.place(site.line)) for site in shown.sites)))
    if shown.buffers:
        rows = ((words.gib(buffer.size), ", ".join(buffer.shapes[:2]), words.where(buffer)) for buffer in shown.buffers)
        parts.append(table(("largest buffers, GiB", "shapes", "made by"), rows))
    if document.attempts:
        rows = (markdown.row(attempt.what, attempt.result) for attempt in document.attempts)
        parts.append(table(("tried by compiling", "verdict", "GiB a device", "step at least", "cost model", "reason"), rows))
    parts += [f"<p class=\"note\">{escape(note)}</p>" for note in shown.notes]
    parts.append(f"<p class=\"provenance\">{escape(words.provenance(shown))}</p>")
    return "\n".join([*parts, "</section>"])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = ["<table>", f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in header)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])


def bar(result: Result) -> str:
    """HBM by kind, as wide as its part of the limit, with a legend."""
    limit = result.memory.limit
    pieces, legend, left = [], [], 0.0
    for kind, size in words.parts(result).items():
        width = min(100.0 - left, 100.0 * size / limit)
        pieces.append(f'<rect x="{left:.2f}%" y="0" width="{width:.2f}%" height="20" fill="{COLOURS[kind]}"/>')
        legend.append(f'<span style="color:{COLOURS[kind]}">&#9632;</span> {escape(words.KINDS[kind][0])} {words.gib(size)} GiB')
        left += width
    frame = '<rect x="0" y="0" width="100%" height="20" fill="none" stroke="#444"/>'
    return f'<svg width="100%" height="20" role="img" aria-label="HBM by kind">{"".join(pieces)}{frame}</svg>\n<p>{", ".join(legend)}</p>'
