"""What a profile says."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from xlaport.runtime.places import Place

Stack = tuple[Place, ...]
"""Lines of the program, innermost first; empty where no line of the program asked."""


@dataclass(frozen=True)
class Counts:
    """What was done: `reads` are transfers from the device, `forced` graphs launched before the step's end, `ended` those
    launched by it; `fallbacks` counts ops run on the host by name. `seconds` is time spent waiting in the calls."""

    events: int = 0
    reads: int = 0
    forced: int = 0
    ended: int = 0
    compiled: int = 0
    seconds: float = 0.0
    fallbacks: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        names = [*self.fallbacks, *(name for name in other.fallbacks if name not in self.fallbacks)]
        return Counts(
            self.events + other.events,
            self.reads + other.reads,
            self.forced + other.forced,
            self.ended + other.ended,
            self.compiled + other.compiled,
            self.seconds + other.seconds,
            {name: self.fallbacks.get(name, 0) + other.fallbacks.get(name, 0) for name in names},
        )

    @property
    def waits(self) -> bool:
        """Whether the program waited for the device, or an op ran on the host."""
        return bool(self.reads or self.forced or self.fallbacks)


@dataclass(frozen=True)
class Line:
    """One line of the program. `stack` is the one it was most often called with; `late` is what is done after warm-up."""

    stack: Stack
    total: Counts
    late: Counts

    @property
    def place(self) -> Place:
        return self.stack[0]


@dataclass(frozen=True)
class Cause:
    """Why graphs were compiled again. `trigger` is where they were launched, `steps` when (from 1), `text` the first
    difference of the first of them. `stack` is where it comes from, and empty where the instruction names no line."""

    stack: Stack
    trigger: Stack
    text: str
    graphs: int
    steps: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Step:
    """Totals of one step, numbered from 1; `seconds` on the host's clock."""

    number: int
    seconds: float
    compiled: int
    compile_seconds: float
    launched: int
    forced: int
    reads: int
    fallbacks: int


@dataclass(frozen=True)
class Profile:
    """`status` is how the run ended: "steps", "ended", "exit" or "timeout".

    `causes_until` is the last step of the run for causes where that was ended at the limit, else None.
    """

    script: str
    device: str
    status: str
    seconds: float
    steps: tuple[Step, ...]
    lines: tuple[Line, ...]
    causes: tuple[Cause, ...]
    causes_until: int | None = None

    @property
    def warm_up(self) -> int:
        """The last step of warm-up: the first half, in which programs compile what they need."""
        return len(self.steps) // 2

    @cached_property
    def late_steps(self) -> tuple[Step, ...]:
        return self.steps[self.warm_up :]

    @property
    def waiting(self) -> tuple[Line, ...]:
        """Lines that make the program wait once it is warm, the most costly first."""
        return tuple(sorted((line for line in self.lines if line.late.waits), key=lambda line: -line.late.seconds))

    @property
    def warm_up_waiting(self) -> tuple[Line, ...]:
        """Those that do so only in warm-up or between steps."""
        return tuple(line for line in self.lines if line.total.waits and not line.late.waits)
