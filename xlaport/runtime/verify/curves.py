"""Curves against each other, and how far a program's own runs lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

ROUNDING = 1e-6
"""A scaled deviation that float32 alone explains: 8 spacings. Ports of programs whose own spread is 1e-7 lie at 2e-7 to 7e-7."""


def deviations(base: Sequence[float], other: Sequence[float]) -> list[float]:
    """Per element |other - base| / max(|base|, mean of |base| so far), over the common length; no unit.

    The mean keeps the scale where a curve crosses zero. Two NaN at one place are equal; one is infinitely far.
    """
    result, total = [], 0.0
    for count, (a, b) in enumerate(zip(base, other), start=1):
        total += 0.0 if math.isnan(a) or math.isinf(a) else abs(a)
        result.append(scaled(a, b, max(abs(a), total / count)))
    return result


def scaled(base: float, other: float, scale: float) -> float:
    if base == other or math.isnan(base) and math.isnan(other):
        return 0.0
    if math.isnan(base) or math.isnan(other) or math.isinf(base) or math.isinf(other):
        return math.inf
    return abs(other - base) / scale if scale else math.inf


@dataclass(frozen=True)
class Comparison:
    """One curve of the port against the reference's: values, scaled deviations and the envelope, element by element.

    The envelope is the running maximum of the deviations of the reference's own repeated runs, at least what rounding explains.
    """

    name: str
    base: tuple[float, ...]
    port: tuple[float, ...]
    deviation: tuple[float, ...]
    envelope: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        return [deviation / allowed for deviation, allowed in zip(self.deviation, self.envelope)]

    @property
    def worst(self) -> float:
        """The largest deviation as a multiple of the envelope."""
        return max(self.ratios, default=0.0)

    @property
    def mean(self) -> float:
        return sum(self.deviation) / len(self.deviation) if self.deviation else 0.0

    @property
    def width(self) -> float:
        """How wide the envelope grows."""
        return self.envelope[-1] if self.envelope else 0.0

    def first_beyond(self, multiple: float) -> int | None:
        """The first element whose deviation exceeds this multiple of the envelope."""
        return next((i for i, ratio in enumerate(self.ratios) if ratio > multiple), None)


def compare(name: str, base: Sequence[float], port: Sequence[float], draws: Sequence[Sequence[float]], floor: float = ROUNDING) -> Comparison:
    deviation = deviations(base, port)
    spread = envelope(base, draws, len(deviation), floor)
    return Comparison(name, tuple(base), tuple(port), tuple(deviation), tuple(spread))


def envelope(base: Sequence[float], draws: Sequence[Sequence[float]], length: int, floor: float = ROUNDING) -> list[float]:
    """Running maximum over all draws, at least `floor`; a draw that is shorter says nothing about what it did not reach."""
    apart = [deviations(base, draw) for draw in draws]
    widest = [max((row[i] for row in apart if i < len(row)), default=0.0) for i in range(length)]
    return [max(value, floor) for value in accumulate(widest, max)]
