"""A verification as one page of its own: no network, no script, dark and light."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from xlaport.reports.verify import sentences
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification

WIDTH, HEIGHT, LEFT, TOP = 720, 220, 70, 12
"""Of one picture, in SVG units; the plot lies right of LEFT and below TOP."""
FLOOR = 1e-9
"""The smallest difference drawn on the logarithmic scale."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #667; --line: #ccd; --page: #fff; --cpu: #1f6feb; --port: #d9480f; --band: #8bc34a55 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #99a; --line: #445; --page: #14161a; --cpu: #6cb2ff; --port: #ff9a62 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin-top: 2rem }
.verdict { font-weight: 700 } .MATCH { color: #2b8a3e } .DRIFT, .NOT { color: #e67700 } .DIVERGED { color: #c92a2a }
svg { width: 100%; height: auto } svg text { fill: var(--soft); font-size: 11px } .axis { stroke: var(--line); fill: none }
.cpu { stroke: var(--cpu); fill: none; stroke-width: 3; opacity: .6 } .port { stroke: var(--port); fill: none; stroke-width: 1.5 } .band { fill: var(--band); stroke: none }
.compiled { stroke: var(--soft); stroke-dasharray: 2 4 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid var(--line) }
.key span { padding-right: 1.2rem } @media print { details { display: block } }
"""


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    print("\n".join(page(found, pair)), file=out)


def page(found: Verification, pair: Pair) -> Iterator[str]:
    verdict = found.judgement.verdict.value
    title = f"xlaport verify: {pair.port.script.name}"
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style></head><body><main>'
    yield f'<h1>{escape(title)}</h1><p><span class="verdict {verdict.split()[0]}">{escape(verdict)}</span> {escape(sentences.headline(found).removeprefix(verdict).strip())}</p>'
    yield "<ul>" + "".join(f"<li>{escape(remark)}</li>" for remark in sentences.remarks(found, pair)) + "</ul>"
    if found.comparisons:
        loss = found.comparisons[0]
        yield '<h2>Loss</h2><p class="key"><span style="color:var(--cpu)">original on the CPU</span><span style="color:var(--port)">port</span><span style="color:var(--soft)">dashed: a graph was compiled</span></p>'
        yield curves(found, [("cpu", loss.base), ("port", loss.port)], "losses of the original and of the port by backward pass")
        yield '<h2>Difference, on a logarithmic scale</h2><p class="key"><span style="color:var(--port)">port</span><span>shaded: the original\'s own runs differ as much</span></p>'
        yield differences(found, loss.deviation, loss.envelope)
        yield table(found)
    yield "</main></body></html>"


def curves(found: Verification, rows: Sequence[tuple[str, Sequence[float]]], label: str) -> str:
    finite = [value for _, values in rows for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    high = high if high > low else low + 1.0
    drawn = "".join(f'<polyline class="{name}" points="{points(values, low, high)}"/>' for name, values in rows)
    return picture(label, marks(found, len(rows[0][1])) + drawn, [(value, f"{value:.4g}") for value in (low, high)], low, high)


def differences(found: Verification, deviation: Sequence[float], envelope: Sequence[float]) -> str:
    logs = [[math.log10(max(value, FLOOR)) if math.isfinite(value) else 0.0 for value in row] for row in (deviation, envelope)]
    low, high = math.log10(FLOOR), max(0.0, *logs[0], *logs[1])
    band = f'<polygon class="band" points="{points(logs[1], low, high)} {WIDTH},{TOP + HEIGHT} {LEFT},{TOP + HEIGHT}"/>'
    line = f'<polyline class="port" points="{points(logs[0], low, high)}"/>'
    ticks = [(power, f"1e{power}") for power in range(math.ceil(low), math.floor(high) + 1, 3)]
    return picture("relative difference of the losses and its envelope", marks(found, len(deviation)) + band + line, ticks, low, high)


def marks(found: Verification, length: int) -> str:
    """Where the port compiled, on the axis of the losses."""
    first = {step: i for i, step in reversed(list(enumerate(found.loss_steps)))}
    places = [first[step] for step in found.compiled_at if step in first and first[step] < length]
    return "".join(f'<line class="compiled" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}"/>' for x in (across(i, length) for i in places))


def across(index: int, length: int) -> float:
    return LEFT + (WIDTH - LEFT) * (index / (length - 1) if length > 1 else 0.5)


def points(values: Sequence[float], low: float, high: float) -> str:
    placed = [(across(i, len(values)), value) for i, value in enumerate(values) if math.isfinite(value)]
    return " ".join(f"{x:.1f},{TOP + HEIGHT * (1 - (value - low) / (high - low)):.1f}" for x, value in placed)


def picture(label: str, drawn: str, ticks: Sequence[tuple[float, str]], low: float, high: float) -> str:
    lines = "".join(
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text><line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        for y, text in ((TOP + HEIGHT * (1 - (value - low) / (high - low)), text) for value, text in ticks)
    )
    return f'<svg viewBox="0 0 {WIDTH + 10} {TOP + HEIGHT + 10}" role="img" aria-label="{escape(label)}">{lines}{drawn}</svg>'


def table(found: Verification) -> str:
    loss = found.comparisons[0]
    rows = zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope)
    body = "".join(f"<tr><td>{step}</td><td>{a:.6g}</td><td>{b:.6g}</td><td>{apart:.1e}</td><td>{allowed:.1e}</td></tr>" for step, a, b, apart, allowed in rows)
    return f"<details open><summary>Losses</summary><table><thead><tr><th>step</th><th>CPU</th><th>port</th><th>difference</th><th>envelope</th></tr></thead><tbody>{body}</tbody></table></details>"
