"""When does a program's step repeat? Decides from the graphs of its syncs, one after another. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 32
"""Syncs that a period may have: micro-batches of one step, a step of several optimizers."""

ALONE = 3
"""Equal graphs in a row that make a step of one sync: two may be chance, as before an optimizer has its state."""


@dataclass(frozen=True)
class Sync:
    """`graph` is its hash; `updates` says whether an optimizer made a step since the sync before, `apart` whether other programs ran."""

    graph: str
    updates: bool
    apart: bool = False


@dataclass
class Steadiness:
    """Fed with syncs; `period` is the number of syncs after which the graphs repeat, 0 before they do."""

    seen: list[Sync] = field(default_factory=list)

    def add(self, sync: Sync) -> None:
        self.seen.append(sync)

    @property
    def period(self) -> int:
        if len(self.seen) >= ALONE and self.repeats(1, ALONE):
            return 1
        return next((length for length in range(2, min(LONGEST, len(self.seen) // 2) + 1) if self.repeats(length, 2)), 0)

    def repeats(self, length: int, times: int) -> bool:
        """Are the last `times` runs of so many syncs equal, and does each train? Micro-batches alone are no step."""
        last = self.seen[-length * times :]
        if len(last) < length * times or any(last[index] != last[index - length] for index in range(length, len(last))):
            return False
        return any(sync.updates for sync in last[:length]) or self.never_trains

    @property
    def never_trains(self) -> bool:
        """A program of so many syncs without an optimizer is taken for one that only evaluates."""
        return len(self.seen) >= 2 * ALONE and not any(sync.updates for sync in self.seen)
