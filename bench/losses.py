"""Loss curves against each other, on a scale that survives losses near zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

ROUNDING = 1e-6
"""The driver rounds recorded losses to six decimals."""


def deviations(base: Sequence[float], other: Sequence[float], resolution: float = 0.0) -> list[float]:
    """Per recorded loss |other - base| / max(|base|, mean of |base| so far), over the common length.

    Differences up to `resolution` (absolute) count as none, as do two NaN at the same place; one NaN is infinite.
    """
    result, total = [], 0.0
    for count, (a, b) in enumerate(zip(base, other), start=1):
        total += 0.0 if math.isnan(a) else abs(a)
        result.append(scaled(a, b, max(abs(a), total / count), resolution))
    return result


def scaled(base: float, other: float, scale: float, resolution: float) -> float:
    if math.isnan(base) or math.isnan(other):
        return 0.0 if math.isnan(base) and math.isnan(other) else math.inf
    difference = abs(other - base)
    if difference <= resolution:
        return 0.0
    return difference / scale if scale else math.inf


def largest(base: Sequence[float], other: Sequence[float], resolution: float = 0.0) -> float:
    return max(deviations(base, other, resolution), default=math.inf)


def floor(base: Sequence[float]) -> float:
    """What rounding alone can make of a deviation of this curve: the smallest spread worth dividing by."""
    sizes = [abs(value) for value in base if not math.isnan(value)]
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    return ROUNDING / mean if mean else ROUNDING
