"""Where a difference starts: the first module whose output, or the last parameter whose gradient, leaves the envelope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlaport.runtime.verify.runs import Locked
from xlaport.runtime.verify.verdict import BFLOAT16

BEYOND = 10.0
"""Multiples of what the reference's own runs differ by."""
OUTPUT_FLOOR = 2e-5
"""Largest difference of an output that float32 alone explains, in units of the output's root mean square."""
GRADIENT_FLOOR = 2e-5


@dataclass(frozen=True)
class Origin:
    """The module or parameter a difference starts at. `largest` and `mean` are differences of its output (forward) in
    units of its root mean square, or the relative distance of its gradient (backward), `allowed` what would be rounding."""

    where: str
    kind: str
    direction: str
    step: int
    largest: float
    mean: float
    allowed: float

    def told(self) -> str:
        what = "output" if self.direction == "forward" else "gradient"
        return f"step {self.step}, {self.direction}: the {what} of {self.where} ({self.kind}) is the first to differ: largest {self.largest:.1e}, mean {self.mean:.1e}, rounding explains {self.allowed:.1e}"


def origin(locked: Locked, step: int) -> Origin | None:
    """From a lock-step in which the outputs of modules at `step` were compared; None where nothing leaves the envelope."""
    return first_module(locked, step) or last_parameter(locked, step)


def first_module(locked: Locked, step: int) -> Origin | None:
    """Calls in the order in which they end: a module comes before those that contain it."""
    own = [follower.ran.of_kind("output") for follower in locked.own]
    floor = BFLOAT16 if locked.mixed else OUTPUT_FLOOR
    for index, row in enumerate(locked.port.ran.of_kind("output")):
        allowed = BEYOND * max([floor, *(rows[index]["largest"] for rows in own if index < len(rows))])
        if row["largest"] > allowed:
            return Origin(row["name"] or row["type"], row["type"], "forward", step, row["largest"], row["mean"], allowed)
    return None


def last_parameter(locked: Locked, step: int) -> Origin | None:
    """Backward runs from the last layer to the first, so the parameter nearest the loss is where it starts."""
    row = at(locked.port.ran.of_kind("lock"), step)
    if row is None:
        return None
    own = [found for follower in locked.own if (found := at(follower.ran.of_kind("lock"), step)) is not None]
    floor = BFLOAT16 if locked.mixed else GRADIENT_FLOOR
    for index in reversed(range(len(row["each"]))):
        allowed = BEYOND * max([floor, *(found["each"][index] for found in own)])
        if row["each"][index] > allowed:
            return Origin(row["names"][index], "parameter", "backward", step, row["each"][index], row["gradient"], allowed)
    return None


def at(rows: Sequence[dict], step: int) -> dict | None:
    return next((row for row in rows if row["at"] == step), None)
