"""One verification, from two programs to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xlaport.runtime import program
from xlaport.runtime.verify import bisect, runs, verdict
from xlaport.runtime.verify.bisect import Origin
from xlaport.runtime.verify.curves import Comparison
from xlaport.runtime.verify.runs import Free, Locked, Pair, Progress, Reference
from xlaport.runtime.verify.traces import Trace
from xlaport.runtime.verify.verdict import Judgement, Performance, StepDeviation, Verdict


@dataclass(frozen=True)
class Failure:
    """A side that could not run: the reason in one line, and the end of what it printed."""

    side: str
    reason: str
    output: str


@dataclass(frozen=True)
class Verification:
    """What was found.

    `comparisons` are those of the free runs, loss first; `lockstep` has a row a step where lock-step was run.
    `compiled_at` are steps of the port at which a graph was compiled, `device` says what it ran on.
    """

    judgement: Judgement
    performance: Performance | None
    comparisons: tuple[Comparison, ...] = ()
    loss_steps: tuple[int, ...] = ()
    lockstep: tuple[StepDeviation, ...] = ()
    origin: Origin | None = None
    device: str = ""
    mixed: bool = False
    carried: tuple[tuple[str, int], ...] = ()
    compiled_at: tuple[int, ...] = ()
    failure: Failure | None = None

    @property
    def exit_status(self) -> int:
        """0 for a match whose steps end, 2 where a side could not run, 1 otherwise."""
        if self.failure is not None:
            return 2
        slow = self.performance is not None and self.performance.no_step_end
        return 0 if self.judgement.verdict is Verdict.MATCH and not slow else 1


@dataclass(frozen=True)
class Wishes:
    """Whether lock-step is run ("auto", "always", "never"), and whether a difference is followed to where it starts."""

    lockstep: str = "auto"
    bisect: bool = False


def verify(pair: Pair, wishes: Wishes, said: Progress, known: Reference | None = None) -> Verification:
    """Run both programs and judge. Raises nothing for programs that fail: the result says so. `known` are runs of the
    reference that were made before, for the same settings."""
    with program.temporary() as folder:
        free = runs.free(pair, Path(folder, "free"), said, known)
        failure = failed(free)
        if failure is not None:
            return Verification(Judgement(Verdict.NOT_COMPARABLE, (failure.reason,)), None, failure=failure)
        found = described(free)
        cause = verdict.incomparable(free, pair.host_random)
        if cause is not None:
            return replace(found, judgement=Judgement(Verdict.NOT_COMPARABLE, (cause,)))
        return decided(pair, wishes, free, found, Path(folder), said)


def failed(free: Free) -> Failure | None:
    for side, run in (("original", free.base), ("port", free.port)):
        if not run.ran.good:
            return Failure(side, run.ran.reason(), run.ran.output)
    return None


def described(free: Free) -> Verification:
    steps = free.port.steps
    return Verification(
        Judgement(Verdict.MATCH),
        verdict.performance(free.port),
        tuple(verdict.comparisons(free)) if free.draws else (),
        free.base.loss_steps,
        device="+".join(sorted(free.port.devices)) or "nothing",
        mixed=runs.autocasts(free.base),
        carried=carried(free.base),
        compiled_at=((0,) if steps and steps[0].compiled else ()) + verdict.compilations(steps),
    )


def carried(run: Trace) -> tuple[tuple[str, int], ...]:
    return tuple((name, count) for record in run.ran.of_kind("carried") for name, count in sorted(record["counts"].items()))


def decided(pair: Pair, wishes: Wishes, free: Free, found: Verification, folder: Path, said: Progress) -> Verification:
    judgement = verdict.judge_free(free)
    asked = wishes.lockstep == "always" or wishes.lockstep == "auto" and verdict.needs_lockstep(free, judgement)
    rows: Sequence[StepDeviation] = ()
    if asked and free.base.steps and pair.is_alone:
        locked = runs.locked(pair, folder / "lock", said, found.mixed)
        rows = verdict.step_deviations(locked)
        judgement = together(judgement, judged(pair, locked, rows, folder, said))
    found = replace(found, judgement=judgement, lockstep=tuple(rows))
    if wishes.bisect and pair.is_alone and judgement.verdict in (Verdict.DIVERGED, Verdict.DRIFT) and free.base.steps:
        found = replace(found, origin=followed(pair, found, folder, said))
    return found


def judged(pair: Pair, locked: Locked, rows: Sequence[StepDeviation], folder: Path, said: Progress) -> Judgement:
    """By lock-step; once more without mixed precision where with it the programs are apart by less than a fault would make them."""
    found = verdict.judge_locked(locked, rows)
    if not locked.mixed or found.verdict is not Verdict.DRIFT or locked.cut() is not None:
        return found
    full = runs.locked(pair, folder / "full", said, locked.mixed, autocast=False)
    return verdict.in_full_precision(found, max(row.ratio for row in rows), verdict.judge_locked(full, verdict.step_deviations(full)))


def together(free: Judgement, locked: Judgement) -> Judgement:
    """Lock-step decides, except over what is certain without it."""
    if locked.verdict is Verdict.NOT_COMPARABLE or free.certain:
        return replace(free, reasons=(*free.reasons, *locked.reasons))
    return locked


def followed(pair: Pair, found: Verification, folder: Path, said: Progress) -> Origin | None:
    """Replay the first bad step, and look at modules and gradients in it."""
    step = found.judgement.first
    if not found.lockstep:
        said("looking for the first step that differs")
        seen = runs.locked(pair, folder / "search", said, found.mixed)
        step = verdict.judge_locked(seen, verdict.step_deviations(seen)).first
    if step is None:
        return None
    said(f"looking at step {step}")
    return bisect.origin(runs.locked(pair, folder / "bisect", said, found.mixed, traced=step), step)
