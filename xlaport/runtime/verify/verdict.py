"""What the runs say: a verdict and its reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from xlaport.runtime.verify.curves import ROUNDING, Comparison, compare, deviations
from xlaport.runtime.verify.runs import Free, Locked, Reference, autocasts
from xlaport.runtime.verify.traces import Step, Trace

MATCHES = 3.0
"""Multiples of the envelope. Right ports of the sample models lie below 1 on free runs and below 2.5 in lock-step."""
DRIFTS = 30.0
NEVER = 0.01
"""A mean scaled gap of the losses above this is never a match, however wide the envelope."""
SUDDEN = 1e-3
"""A curve that leaves the envelope by this much at once is no rounding."""
AT_ONCE = 1e-3
"""A first loss that moves by this much between runs with equal weights depends on more than the weights."""
WIDE = 1e-4
"""An envelope wider than this could hide a fault (a learning rate off by 1 % moves a loss by 3e-4): lock-step decides."""

LOCKED_MATCHES = 5.0
LOCKED_DRIFTS = 20.0
SELDOM, KINK = 0.1, 1e-2
"""What the kink of an activation explains: a tenth of the steps, and gradients that differ by 1 %. Seen on a public GAN:
one step of 39, 1e-4 of the gradient of one layer."""
GRADIENT_FLOOR, UPDATE_FLOOR = 2e-6, 5e-6
"""What float32 alone explains in one step, relative: the order of sums, and Adam's division by small gradients."""
ALONG = 0.05
"""Of what two runs differ by in one step, the share that may lie along the step itself and so change its size."""
MOVED = 1e-5
"""A norm that moved by less, relative, may be rounding."""
BFLOAT16 = 2.0**-8
"""Spacing of bfloat16 numbers, relative."""


class Verdict(StrEnum):
    MATCH = "MATCH"
    DRIFT = "DRIFT"
    DIVERGED = "DIVERGED"
    NOT_COMPARABLE = "NOT COMPARABLE"


@dataclass(frozen=True)
class Judgement:
    """A verdict, why, and the step it begins to hold (counted from 0), if it does at one. It is `certain` where it needs no
    envelope: the two programs do different things."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    first: int | None = None
    certain: bool = False


# -- what cannot be compared


def incomparable(free: Free, host_random: bool) -> str | None:
    """The cause for which curves say nothing, in one sentence."""
    base, port = free.base, free.port
    if not base.losses:
        return "no loss was seen: the original calls .backward() on no one-element tensor"
    if not port.losses:
        return "no loss was seen in the port: it calls .backward() on no one-element tensor"
    if len(base.ran.ranks) != len(port.ran.ranks):
        return f"{counted(base)} of the original trained, and {counted(port)} of the port: it starts no replicas"
    if port.devices == {"cpu"}:
        return "the port computes its losses on the CPU, not on XLA: it proves nothing about a TPU"
    if not math.isfinite(base.losses[0]):
        return f"the original's own first loss is {base.losses[0]}: it computes with memory it never set, or its numbers are too large from the start"
    if differs_at_once(free.reference):
        return "the original's own runs differ at the first loss: it draws random numbers that no seed of ours controls, or reads the clock"
    if not host_random and random_on_device(port):
        return f"the port draws random numbers on the device ({', '.join(random_on_device(port))}): use --rng host"
    return None


def counted(run: Trace) -> str:
    count = len(run.ran.ranks)
    return f"{count} rank{'s' if count > 1 else ''}"


def differs_at_once(reference: Reference) -> bool:
    """Whether the first loss moved by more than rounding can between two runs with the same weights."""
    if reference.again is None or not reference.again.losses:
        return False
    return deviations(reference.base.losses[:1], reference.again.losses[:1])[0] > AT_ONCE


def random_on_device(port: Trace) -> list[str]:
    return sorted(port.total.get("random", {}))


# -- free runs


def comparisons(free: Free) -> list[Comparison]:
    """Losses first; then norms of all gradients before, and of all parameters after, each optimizer's step; then what the
    program names itself."""
    floor = BFLOAT16 if autocasts(free.base) else ROUNDING
    port, draws = curves(free.port), [curves(draw) for draw in free.draws]
    return [compare(name, values, port.get(name, ()), [draw[name] for draw in draws if name in draw], floor) for name, values in curves(free.base).items()]


def curves(trace: Trace) -> dict[str, Sequence[float]]:
    return {"loss": trace.losses, "gradient norm": trace.gradient_norms, "parameter norm": trace.parameter_norms, **dict(trace.scalars)}


def judge_free(free: Free) -> Judgement:
    """From curves alone."""
    certain = list(differences(free.base, free.port))
    compared = comparisons(free)
    beyond = [(c, c.first_beyond(DRIFTS)) for c in compared]
    first = min((step_of(free.base, c, at) for c, at in beyond if at is not None), default=None)
    if certain or first is not None:
        named = [f"{c.name} leaves {DRIFTS:.0f} times the envelope at step {step_of(free.base, c, at)}" for c, at in beyond if at is not None]
        return Judgement(Verdict.DIVERGED, (*certain, *named), first if first is not None else 0, certain=bool(certain))
    worst = max(compared, key=lambda c: c.worst)
    if compared[0].mean > NEVER:
        return Judgement(Verdict.DRIFT, (f"the losses lie {compared[0].mean:.1%} apart on average: never a match",), step_of(free.base, worst, 0))
    if worst.worst > MATCHES:
        at = worst.first_beyond(MATCHES) or 0
        return Judgement(Verdict.DRIFT, (f"{worst.name} lies at {worst.worst:.1f} times the envelope",), step_of(free.base, worst, at))
    return Judgement(Verdict.MATCH)


def step_of(trace: Trace, comparison: Comparison, at: int) -> int:
    """The optimizer step an element of a curve belongs to."""
    if comparison.name == "loss":
        steps: Sequence[int] = trace.loss_steps
    elif comparison.name in dict(trace.scalars):
        steps = range(len(comparison.base))
    else:
        steps = [step.step for step in trace.steps]
    return steps[at] if at < len(steps) else at


def needs_lockstep(free: Free, judgement: Judgement) -> bool:
    """Whether the curves leave it open: the program carries rounding too far, or the port lies between yes and no, or goes
    away from the original slowly, as programs do that carry the rounding of other kernels further than that of weights."""
    compared = comparisons(free)
    wide = any(c.width > WIDE for c in compared)
    if judgement.verdict is not Verdict.DIVERGED:
        return judgement.verdict is Verdict.DRIFT or wide
    sudden = any(at is not None and c.deviation[at] > SUDDEN for c in compared for at in [c.first_beyond(DRIFTS)])
    return not judgement.certain and (wide or not sudden)


# -- what is known without curves


def differences(base: Trace, port: Trace) -> Iterator[str]:
    """What cannot be so in a port that trains as its original: counts, settings, parameters that stay."""
    if len(base.losses) != len(port.losses):
        yield f"the original calls .backward() {len(base.losses)} times and the port {len(port.losses)} in the same steps"
    if len(base.steps) != len(port.steps):
        yield f"the original's optimizers step {len(base.steps)} times and the port's {len(port.steps)}"
    for ours, theirs in zip(base.steps, port.steps):
        found = list(step_differences(ours, theirs))
        yield from (f"step {ours.step}: {text}" for text in found)
        if found:
            return
    yield from stuck(base, port)
    for name, values in base.scalars:
        if len(dict(port.scalars).get(name, ())) != len(values):
            yield f"the scalar {name!r} is recorded {len(values)} times in the original and {len(dict(port.scalars).get(name, ()))} in the port"


def step_differences(base: Step, port: Step) -> Iterator[str]:
    """The same numbers in other pieces are no difference: FSDP1 keeps flat parameters unless it is told otherwise."""
    if base.elements != port.elements:
        tied = "; tied weights became separate parameters" if port.held > base.held else ""
        yield f"the optimizer holds {base.held} parameters ({base.elements} numbers) in the original and {port.held} ({port.elements}) in the port{tied}"
    if port.held == base.held and port.without_gradient > base.without_gradient:
        place = " (they are on the CPU: the optimizer was built before the model moved)" if "cpu" in port.devices else ""
        yield f"{port.without_gradient} of {port.held} parameters of the optimizer have no gradient in the port, {base.without_gradient} in the original{place}"
    if base.name != port.name:
        yield f"the original steps {base.name}, the port {port.name}"
    for name, ours, theirs in setting_differences(base, port):
        yield f"{name} is {ours} in the original and {theirs} in the port"


def setting_differences(base: Step, port: Step) -> Iterator[tuple[str, object, object]]:
    for ours, theirs in zip(base.settings, port.settings):
        known, other = dict(ours), dict(theirs)
        for name in known.keys() & other.keys():
            if not equal(known[name], other[name]):
                yield name, known[name], other[name]


def equal(a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)


def stuck(base: Trace, port: Trace) -> Iterator[str]:
    """Parameters that change in the original and not in the port."""
    moved = [ranges(trace.steps) for trace in (base, port)]
    if len(moved[0]) == len(moved[1]):
        lost = sum(ours > MOVED and theirs == 0 for ours, theirs in zip(*moved))
        if lost:
            yield f"{lost} of {len(moved[0])} parameters change in the original and never in the port"


def ranges(steps: Sequence[Step]) -> list[float]:
    """For each parameter of each optimizer: how far its norm moved, relative to its largest."""
    result = []
    for optimizer in dict.fromkeys(step.optimizer for step in steps):
        rows = [step.parameters for step in steps if step.optimizer == optimizer]
        result += [(max(column) - min(column)) / (max(column) or 1.0) for column in zip(*rows)] if len(rows) > 1 else []
    return result


# -- lock-step


@dataclass(frozen=True)
class Measure:
    """One number of one step, relative, and what it may be by the reference's own runs (running maximum)."""

    name: str
    value: float
    envelope: float

    @property
    def ratio(self) -> float:
        return self.value / self.envelope


@dataclass(frozen=True)
class StepDeviation:
    """One step from one state. `start` is how far the states were apart that it was made from (0: given by the leader)."""

    at: int
    start: float
    measures: tuple[Measure, ...]

    @property
    def worst(self) -> Measure:
        return max(self.measures, key=lambda measure: measure.ratio)

    @property
    def ratio(self) -> float:
        return self.worst.ratio


MEASURES = {
    "gradient": ("gradients", GRADIENT_FLOOR),
    "gradient_size": ("size of the gradients", GRADIENT_FLOOR),
    "update": ("update", UPDATE_FLOOR),
    "update_size": ("size of the update", UPDATE_FLOOR),
}
"""What followers record -> its name, and what float32 alone explains."""


def step_deviations(locked: Locked) -> list[StepDeviation]:
    own = [follower.ran.of_kind("lock") for follower in locked.own]
    losses = compare("loss", locked.led.losses, locked.port.losses, [follower.losses for follower in locked.own])
    widest = {name: BFLOAT16 if locked.mixed else floor for name, (_, floor) in MEASURES.items()}
    found, told, loss_envelope = [], 0, BFLOAT16 if locked.mixed else ROUNDING
    for at, row in enumerate(locked.port.ran.of_kind("lock")):
        for name in MEASURES:
            widest[name] = max([widest[name], *(lines[at][name] for lines in own if at < len(lines))])
        for name in ("gradient", "update"):
            widest[f"{name}_size"] = max(widest[f"{name}_size"], ALONG * widest[name])
        new = range(told, min(row["losses"], len(losses.deviation)))
        told = row["losses"]
        loss_envelope = max([loss_envelope, *(losses.envelope[i] for i in new)])
        loss = Measure("loss", max((losses.deviation[i] for i in new), default=0.0), loss_envelope)
        measures = [Measure(said, row[name], widest[name]) for name, (said, _) in MEASURES.items()]
        found.append(StepDeviation(at, row["start"], (loss, *measures)))
    return found


def judge_locked(locked: Locked, deviations: Sequence[StepDeviation]) -> Judgement:
    """Every step from the same state: what differs in one step differs for a reason."""
    mismatch = locked.port.ran.of_kind("mismatch")
    if mismatch:
        return Judgement(Verdict.DIVERGED, (f"the optimizer holds {mismatch[0]['led']} parameters in the original and {mismatch[0]['own']} in the port, or of other shapes",), mismatch[0]["at"])
    missing = next((row for row in locked.port.ran.of_kind("lock") if row["missing"]), None)
    if missing is not None:
        names = ", ".join(missing["names"][i] for i in missing["missing"][:3])
        return Judgement(Verdict.DIVERGED, (f"gradients are missing on one side: {names}",), missing["at"])
    if not deviations:
        return Judgement(Verdict.NOT_COMPARABLE, (f"no step was compared in lock-step: {locked.port.ran.reason()}",))
    worst = max(deviations, key=lambda row: row.ratio)
    beyond = [row for row in deviations if row.ratio > LOCKED_MATCHES]
    few = kinks(beyond, len(deviations))
    cut = locked.cut()
    if cut is not None and (few or not beyond):
        return Judgement(Verdict.DRIFT, (f"lock-step ended after {len(deviations)} steps, equal so far: {cut}",))
    if not beyond:
        return Judgement(Verdict.MATCH, (f"each of {len(deviations)} steps, made from the same state, is equal within {max(worst.ratio, 0.0):.1f} times the envelope of one step",))
    if few:
        steps = ", ".join(str(row.at) for row in beyond)
        return Judgement(Verdict.MATCH, (f"{len(deviations) - len(beyond)} of {len(deviations)} steps, made from the same state, are equal within the envelope of one step; in step {steps} gradients differ by up to {max(row.worst.value for row in beyond):.0e}, as they do where a value lies at the kink of an activation",))
    bad = beyond[0]
    verdict = Verdict.DRIFT if worst.ratio <= LOCKED_DRIFTS else Verdict.DIVERGED
    return Judgement(verdict, (f"made from the same state, step {bad.at} differs in its {bad.worst.name}: {bad.ratio:.0f} times the envelope",), bad.at)


def in_full_precision(mixed: Judgement, widest: float, full: Judgement) -> Judgement:
    """What remains of a difference in mixed precision: sums of bfloat16 numbers differ between kernels (on XLA:CPU the gradient
    of a bias is 5 times further from the exact one than on the CPU, torch_xla 2.9), so the programs are equal if they are without it."""
    if full.verdict is not Verdict.MATCH:
        graver = full if full.verdict is Verdict.DIVERGED else mixed
        return replace(graver, reasons=(*mixed.reasons, f"and without mixed precision: {'; '.join(full.reasons)}"))
    return Judgement(Verdict.MATCH, (f"without mixed precision {full.reasons[0]}; with it by up to {widest:.0f} times what full precision makes of the original",))


def kinks(beyond: Sequence[StepDeviation], steps: int) -> bool:
    """Whether steps beyond the envelope are few and small, with equal losses: a value within rounding of zero takes the
    other side of a ReLU in one of two programs, and changes a gradient for that step alone. A fault stays."""
    if len(beyond) > max(1, steps * SELDOM):
        return False
    return all(measure.name != "loss" and measure.value < KINK for row in beyond for measure in row.measures if measure.ratio > LOCKED_MATCHES)


# -- how the port runs


@dataclass(frozen=True)
class Performance:
    """Of the port's run: graphs compiled and launched, steps (of all optimizers) at which a graph was compiled after warm-up, ops on the host."""

    compiled: int
    launched: int
    late: tuple[int, ...]
    fallbacks: dict[str, int]
    steps: int
    no_step_end: bool


def performance(port: Trace) -> Performance:
    """A step that ends launches a graph; one that does not grows the next."""
    total, second_half = port.total, port.steps[len(port.steps) // 2 :]
    idle = len(second_half) > 2 and len({step.launched for step in second_half}) == 1
    late = compilations(second_half)
    return Performance(total.get("compiled", 0), total.get("launched", 0), late, total.get("fallbacks", {}), len(port.steps), idle)


def compilations(steps: Sequence[Step]) -> tuple[int, ...]:
    """The steps before which a graph was compiled since the one before."""
    return tuple(b.step for a, b in zip(steps, steps[1:]) if b.compiled > a.compiled)
