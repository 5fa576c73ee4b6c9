"""Loss curves against each other, where the driver rounds what it records."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlaport.runtime.verify.curves import deviations

ROUNDING = 1e-6
"""The driver rounds recorded losses to six decimals."""


def largest(base: Sequence[float], other: Sequence[float], resolution: float = 0.0) -> float:
    """The largest scaled deviation over the common length; differences up to `resolution` (absolute) count as none."""
    seen = [a if abs(b - a) <= resolution else b for a, b in zip(base, other)]
    return max(deviations(base, seen), default=math.inf)


def floor(base: Sequence[float]) -> float:
    """What rounding alone can make of a deviation of this curve: the smallest spread worth dividing by."""
    sizes = [abs(value) for value in base if not math.isnan(value)]
    mean = sum(sizes) / len(sizes) if sizes else 0.0
    return ROUNDING / mean if mean else ROUNDING
