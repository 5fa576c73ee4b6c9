"""A verification for people: a table, a picture made of characters, and the verdict; at most 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TextIO

from xlaport.reports.terminal import WIDTH, wrapped, writer
from xlaport.reports.verify import sentences
from xlaport.runtime.verify.curves import Comparison
from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verdict import Verdict
from xlaport.runtime.verify.verification import Verification

ROWS = 24
"""Losses shown; of more, the first and the last."""
HEIGHT = 8
"""Lines of the picture."""
STYLES = {Verdict.MATCH: "bold green", Verdict.DRIFT: "bold yellow", Verdict.DIVERGED: "bold red", Verdict.NOT_COMPARABLE: "bold yellow"}


def verification(found: Verification, pair: Pair, out: TextIO) -> None:
    write = writer(out)
    if found.comparisons:
        for line in (*table(found), "", *picture(found.comparisons[0]), ""):
            write(line, "")
    ends = found.performance is None or not found.performance.no_step_end
    style = STYLES[found.judgement.verdict] if ends or found.judgement.verdict is not Verdict.MATCH else "bold red"
    for line in wrapped(sentences.headline(found), "  "):
        write(line, style)
    for remark in sentences.remarks(found, pair):
        for line in wrapped(remark, "    ", "  "):
            write(line, "dim" if found.exit_status == 0 else "")


def table(found: Verification) -> Iterator[str]:
    loss = found.comparisons[0]
    yield f"{'step':>6}{'cpu':>14}{'xla':>14}{'|Δ|/|cpu|':>13}{'envelope':>12}"
    rows = list(zip(found.loss_steps, loss.base, loss.port, loss.deviation, loss.envelope))
    kept = rows if len(rows) <= ROWS else rows[: ROWS - 4] + [None] + rows[-4:]
    for row in kept:
        yield "   ..." if row is None else f"{row[0]:>6}{row[1]:>14.6g}{row[2]:>14.6g}{row[3]:>13.1e}{row[4]:>12.1e}"


def picture(loss: Comparison) -> list[str]:
    """Both curves over the losses in their order: `o` the original, `x` the port, `*` both."""
    points = [(a, b) for a, b in zip(loss.base, loss.port)]
    finite = [value for pair in points for value in pair if math.isfinite(value)]
    if not finite:
        return ["(no finite loss)"]
    low, high = min(finite), max(finite)
    columns = resampled(points, WIDTH - 14)
    grid = [[" "] * len(columns) for _ in range(HEIGHT)]
    for x, (a, b) in enumerate(columns):
        rows = [row_of(value, low, high) for value in (a, b)]
        for row, mark in zip(rows, "ox"):
            if row is not None:
                grid[row][x] = "*" if rows[0] == rows[1] else mark
    labels = [f"{high:>10.4g} ", *[" " * 11] * (HEIGHT - 2), f"{low:>10.4g} "]
    return [f"{label}|{''.join(line)}".rstrip() for label, line in zip(labels, grid)] + [f"{'':>11}o original on the CPU, x port, * both"]


def resampled(points: Sequence[tuple[float, float]], width: int) -> list[tuple[float, float]]:
    if len(points) <= width:
        times = max(1, min(3, width // len(points)))
        return [point for point in points for _ in range(times)]
    return [points[i * len(points) // width] for i in range(width)]


def row_of(value: float, low: float, high: float) -> int | None:
    if not math.isfinite(value):
        return None
    share = (value - low) / (high - low) if high > low else 0.5
    return HEIGHT - 1 - round(share * (HEIGHT - 1))
