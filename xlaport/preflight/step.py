"""What the parent and the trace child tell each other of a step. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

TRAIL = "trail"
"""The file that names the operation being traced, for the case that the process dies of it."""


@dataclass(frozen=True)
class Variant:
    """How the step is made otherwise than as written.

    `dtype`: of weights and optimizer state. `checkpoint`: recompute each layer in the backward pass. `batch_divisor`: a
    batch so much smaller, accumulated as often. `fsdp`: shard the model. `layers`: keep so many.
    """

    dtype: str | None = None
    checkpoint: bool = False
    batch_divisor: int = 1
    fsdp: bool = False
    layers: int | None = None


@dataclass(frozen=True)
class Argument:
    """An argument of the step's program. `bytes` on one device, as the program has it; the compiler may pad."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    sharding: str | None
    donated: bool


@dataclass(frozen=True)
class Site:
    """A place that does not run on the device. `kind`: `unlowered` (runs on the host), `reads` (waits for a value), `dynamic` (shape depends on data)."""

    kind: str
    operator: str
    line: str
    count: int
