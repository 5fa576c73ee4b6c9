"""The answer to one question: this step on this slice. Every report is a function of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from xlaport.preflight.estimate import Time
from xlaport.preflight.hlo import Collective
from xlaport.preflight.memory import Buffer, Memory
from xlaport.preflight.step import Argument, Site, Variant
from xlaport.preflight.topology import Topology


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
    torchax: str = ""


@dataclass(frozen=True)
class Effort:
    """What the answer took: seconds, seconds of CPU (which a busy machine does not lengthen) and peak resident bytes of both children."""

    trace_seconds: float = 0.0
    trace_rss: int = 0
    compile_seconds: float = 0.0
    compile_rss: int = 0
    trace_cpu: float = 0.0
    compile_cpu: float = 0.0
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
    guess: bool = False
    """Extrapolated from fewer layers (`--quick`)."""

    versions: Versions = Versions()
    effort: Effort = Effort()


@dataclass(frozen=True)
class Attempt:
    """Something that might help, and what came of it."""

    what: str
    result: Result


@dataclass(frozen=True)
class Prices:
    """US dollars a chip and hour by TPU, as the user gave them, and for how many steps."""

    per_chip_hour: dict[str, float] = field(default_factory=dict)
    steps: int = 0

    def of_step(self, result: Result) -> float | None:
        """Dollars of one step on the whole slice, by the estimated time; None without a price or a time."""
        price = self.per_chip_hour.get(result.topology.generation.name)
        if price is None or result.time is None or result.time.estimate is None:
            return None
        return price * result.topology.chips * result.time.estimate / 3600


@dataclass(frozen=True)
class Document:
    """All of one run: what is reported."""

    results: tuple[Result, ...]
    attempts: tuple[Attempt, ...] = ()
    prices: Prices = Prices()

    @property
    def shown(self) -> Result:
        """The answer that is reported in full: the smallest slice that fits, or the last one asked."""
        return next((result for result in self.results if result.verdict is Verdict.FITS), self.results[-1])


def exit_status(results: tuple[Result, ...]) -> int:
    """Of one question its verdict's; of a ladder 0 if any slice fits, else 2 if nothing is known of one."""
    statuses = [result.verdict.exit_status for result in results]
    return 0 if 0 in statuses else max(statuses)
