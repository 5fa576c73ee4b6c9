"""What one run recorded, as curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest

from xlaport.runtime.program import Ran

@dataclass(frozen=True)
class Step:
    """One step of one optimizer. Norms are 2-norms over all its parameters; counters are totals since the start."""

    optimizer: int
    name: str
    step: int
    held: int
    elements: int
    without_gradient: int
    devices: tuple[str, ...]
    settings: tuple[tuple, ...]
    time: float
    compiled: int
    launched: int
    transfers: int
    fallbacks: dict[str, int]
    gradients: tuple[float, ...]
    parameters: tuple[float, ...]

    @property
    def gradient_norm(self) -> float:
        return math.sqrt(sum(value * value for value in self.gradients))

    @property
    def parameter_norm(self) -> float:
        return math.sqrt(sum(value * value for value in self.parameters))


@dataclass(frozen=True)
class Trace:
    """The curves of one run: losses in the order of their backward passes, steps in the order they were made; of several
    ranks, the first of every rank, then the second of every rank."""

    ran: Ran
    losses: tuple[float, ...]
    loss_steps: tuple[int, ...]
    devices: frozenset[str]
    steps: tuple[Step, ...]
    scalars: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """Those the program names itself: name -> values in order."""

    @property
    def gradient_norms(self) -> list[float]:
        return [step.gradient_norm for step in self.steps]

    @property
    def parameter_norms(self) -> list[float]:
        return [step.parameter_norm for step in self.steps]

    @property
    def total(self) -> dict:
        """The counters before the last values were read."""
        found = self.ran.of_kind("total")
        return found[-1] if found else {}


def trace(ran: Ran) -> Trace:
    losses = in_turn(ran, "loss")
    return Trace(
        ran,
        tuple(float(record["value"]) for record in losses),
        tuple(record["step"] for record in losses),
        frozenset(record["device"] for record in losses),
        tuple(step_of(record) for record in in_turn(ran, "step")),
        named(in_turn(ran, "scalar")),
    )


def named(records: list[dict]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    names = dict.fromkeys(record["name"] for record in records)
    return tuple((name, tuple(float(record["value"]) for record in records if record["name"] == name)) for name in names)


def in_turn(ran: Ran, kind: str) -> list[dict]:
    rows = [[record for record in records if record["kind"] == kind] for records in ran.ranks]
    return [record for group in zip_longest(*rows) for record in group if record is not None]


def step_of(record: dict) -> Step:
    names = ("optimizer", "name", "step", "held", "elements", "without_gradient", "time", "compiled", "launched", "transfers", "fallbacks")
    return Step(
        **{name: record[name] for name in names},
        devices=tuple(record["devices"]),
        settings=tuple(tuple(sorted((name, hashable(value)) for name, value in group.items())) for group in record["settings"]),
        gradients=tuple(record.get("gradients", ())),
        parameters=tuple(record.get("parameters", ())),
    )


def hashable(value):
    return tuple(value) if isinstance(value, list) else value
