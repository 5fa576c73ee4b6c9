"""The answer to one question: this step on this slice. Every report is a function of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from xlaport.preflight.estimate import Time
from xlaport.preflight.hlo import Collective
from xlaport.preflight.memory import Buffer, Memory
from xlaport.preflight.topology import Topology
from xlaport.preflight.tracing import Argument, Site, Variant


class Verdict(Enum):
    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    UNSUPPORTED = "unsupported"
    """It holds operations that do not run on the device, or the compiler refuses it."""

    UNKNOWN = "unknown"
    """There is no answer; `reason` says why."""

    @property
    def exit_status(self) -> int:
        return {Verdict.FITS: 0, Verdict.UNKNOWN: 2}.get(self, 1)


@dataclass(frozen=True)
class Versions:
    jax: str = ""
    libtpu: str = ""
    torch: str = ""
    torch_xla: str = ""


@dataclass(frozen=True)
class Effort:
    """What the answer took: seconds and peak resident bytes of both children."""

    trace_seconds: float = 0.0
    trace_rss: int = 0
    compile_seconds: float = 0.0
    compile_rss: int = 0
    cached: bool = False


@dataclass(frozen=True)
class Result:
    """`kinds`: bytes of arguments on one device by kind. `collectives`: those of the program and those assumed."""

    topology: Topology
    verdict: Verdict
    reason: str = ""
    spmd: bool = False
    variant: Variant = Variant()
    memory: Memory | None = None
    time: Time | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    collectives: tuple[Collective, ...] = ()
    sites: tuple[Site, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    notes: tuple[str, ...] = ()
    parameters: int = 0
    arguments: tuple[Argument, ...] = ()
    outputs: int = 0
    batch: int = 0
    steps: int = 0
    versions: Versions = Versions()
    effort: Effort = Effort()


def exit_status(results: list[Result]) -> int:
    """Of one question its verdict's; of a ladder 0 if any slice fits, else 2 if nothing is known of one."""
    statuses = [result.verdict.exit_status for result in results]
    return 0 if 0 in statuses else max(statuses)
