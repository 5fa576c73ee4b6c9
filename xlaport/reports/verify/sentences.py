"""What every picture of a verification says in words."""

from __future__ import annotations

from xlaport.runtime.verify.runs import Pair
from xlaport.runtime.verify.verdict import Verdict
from xlaport.runtime.verify.verification import Verification


def headline(found: Verification) -> str:
    """The verdict with its figures, in one line."""
    return "; ".join([f"{found.judgement.verdict.value}  {figures(found)}", *performance(found)])


def figures(found: Verification) -> str:
    if not found.comparisons:
        return "; ".join(found.judgement.reasons)
    loss = found.comparisons[0]
    largest, envelope = max(loss.deviation, default=0.0), loss.width
    return f"{steps(found)} steps, largest relative difference {largest:.0e} (envelope {envelope:.0e})"


def steps(found: Verification) -> int:
    return found.loss_steps[-1] + 1 if found.loss_steps else 0


def performance(found: Verification) -> list[str]:
    run = found.performance
    if run is None:
        return []
    if run.no_step_end:
        return [f"no graph runs at the end of a step ({run.launched} in {run.steps} steps): the port lacks a torch_xla.sync() or barrier=True"]
    late = f", {len(run.late)} in the second half (at step {', '.join(map(str, run.late[:5]))}{'...' if len(run.late) > 5 else ''})" if run.late else ", none after warm-up"
    host = sum(run.fallbacks.values())
    fallen = f"{host} fallbacks ({', '.join(sorted(run.fallbacks)[:3])})" if host else "0 fallbacks"
    return [f"{run.compiled} compilations{late}", fallen]


def remarks(found: Verification, pair: Pair) -> list[str]:
    """Reasons, where it starts, how it was run."""
    lines = list(found.judgement.reasons) if found.comparisons else []
    if found.origin is not None:
        lines.append(found.origin.told())
    if found.lockstep and found.judgement.verdict is not Verdict.MATCH:
        worst = max(found.lockstep, key=lambda row: row.ratio)
        lines.append(f"lock-step: the largest difference of one step is {worst.ratio:.1f} times its envelope, in the {worst.worst.name} of step {worst.at}")
    if found.mixed:
        lines.append("mixed precision: both sides compute in bfloat16, and the envelope holds a run of the original without")
    if found.carried:
        lines.append("the original on the CPU: " + ", ".join(f"{count} {name}" for name, count in found.carried))
    drawn = "the host's generator for both sides" if pair.host_random else "each device's own generator"
    lines.append(f"the port ran on {found.device}; random numbers from {drawn}")
    return lines
