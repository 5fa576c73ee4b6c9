"""A verification as one page of its own: no network, no script, dark and light."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from xlaport.reports import html
from xlaport.reports.verify import sentences
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verification import Verification

WIDTH, HEIGHT, LEFT, TOP = 720, 220, 70, 12
"""Of one picture, in SVG units; the plot lies right of LEFT and below TOP."""
FLOOR = 1e-9
"""The smallest difference drawn on the logarithmic scale."""


class Chart(NamedTuple):
    """One picture. `shapes`: (`line` or `band`, class, points), `ticks`: (y, text), `marks`: x where a graph was compiled."""

    title: str
    label: str
    key: tuple[tuple[str, str], ...]
    ticks: list[tuple[str, str]]
    marks: list[str]
    shapes: list[tuple[str, str, str]]
    left: int = LEFT
    right: int = WIDTH
    top: int = TOP
    bottom: int = TOP + HEIGHT
    width: int = WIDTH + 10
    height: int = TOP + HEIGHT + 10


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    print(html.render("verify.html", found=view(found, pair)), file=out)


def view(found: Verification, pair: Pair) -> dict[str, Any]:
    """What the template shows."""
    verdict = found.judgement.verdict.value
    return {
        "title": f"xlaport verify: {pair.port.script.name}",
        "verdict": verdict,
        "headline": sentences.headline(found).removeprefix(verdict).strip(),
        "remarks": sentences.remarks(found, pair),
        "charts": [curves(found), differences(found)] if found.comparisons else [],
        "rows": rows(found),
    }


def curves(found: Verification) -> Chart:
    loss = found.comparisons[0]
    finite = [value for values in (loss.base, loss.port) for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    high = high if high > low else low + 1.0
    lines = [("line", "cpu", points(loss.base, low, high)), ("line", "port", points(loss.port, low, high))]
    key = (("cpu", "original on the CPU"), ("port", "port"), ("soft", "dashed: a graph was compiled"))
    ticks = [(height(value, low, high), f"{value:.4g}") for value in (low, high)]
    return Chart("Loss", "losses of the original and of the port by backward pass", key, ticks, marks(found, len(loss.base)), lines)


def differences(found: Verification) -> Chart:
    loss = found.comparisons[0]
    deviation, envelope = ([math.log10(max(value, FLOOR)) if math.isfinite(value) else 0.0 for value in row] for row in (loss.deviation, loss.envelope))
    low, high = math.log10(FLOOR), max(0.0, *deviation, *envelope)
    shapes = [("band", "band", f"{points(envelope, low, high)} {WIDTH},{TOP + HEIGHT} {LEFT},{TOP + HEIGHT}"), ("line", "port", points(deviation, low, high))]
    ticks = [(height(power, low, high), f"1e{power}") for power in range(math.ceil(low), math.floor(high) + 1, 3)]
    key = (("port", "port"), ("soft", "shaded: the original's own runs differ as much"))
    title = "Difference, on a logarithmic scale"
    return Chart(title, "relative difference of the losses and its envelope", key, ticks, marks(found, len(deviation)), shapes)


def marks(found: Verification, length: int) -> list[str]:
    """Where the port compiled, on the axis of the losses."""
    first = {step: i for i, step in reversed(list(enumerate(found.loss_steps)))}
    places = [first[step] for step in found.compiled_at if step in first and first[step] < length]
    return [f"{across(i, length):.1f}" for i in places]


def across(index: int, length: int) -> float:
    return LEFT + (WIDTH - LEFT) * (index / (length - 1) if length > 1 else 0.5)


def height(value: float, low: float, high: float) -> float:
    return round(TOP + HEIGHT * (1 - (value - low) / (high - low)), 1)


def points(values: Sequence[float], low: float, high: float) -> str:
    placed = [(across(i, len(values)), value) for i, value in enumerate(values) if math.isfinite(value)]
    return " ".join(f"{x:.1f},{height(value, low, high)}" for x, value in placed)


def rows(found: Verification) -> list[tuple[str, ...]]:
    if not found.comparisons:
        return []
    loss = found.comparisons[0]
    listed = zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope)
    return [(str(step), f"{a:.6g}", f"{b:.6g}", f"{apart:.1e}", f"{allowed:.1e}") for step, a, b, apart, allowed in listed]
