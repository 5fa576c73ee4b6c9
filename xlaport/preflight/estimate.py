"""How long a step takes, in figures that are what their names say. None of them was measured on a TPU.

`lower_bound`: no step is shorter. `cost_model`: the compiler's own estimate of its instructions, without collectives.
`collectives`: bytes over the bandwidth of all links, an estimate on the low side.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.topology import Generation


@dataclass(frozen=True)
class Time:
    """Seconds of one step on one device, and the FLOPs they follow from."""

    flops: float
    flops_source: str
    """`XLA` (its count of the compiled program) or `StableHLO` (products and convolutions before partitioning)."""

    lower_bound: float
    bound_by: str
    """`FLOPs` or `memory`."""

    cost_model: float | None
    """None where the compiled program carries no estimate."""

    collectives: float
    peak_flops: float
    """FLOP/s of the device at its peak."""

    def lower_bound_of(self, flops: float) -> float:
        return flops / self.peak_flops

    @property
    def estimate(self) -> float | None:
        return None if self.cost_model is None else self.cost_model + self.collectives

    @property
    def peak_fraction(self) -> float | None:
        """FLOPs at peak as a part of the cost model's time with collectives."""
        return self.lower_bound_of(self.flops) / self.estimate if self.estimate else None


def of_step(generation: Generation, program: Optimized, updated: int, xla_flops: float, stablehlo_flops: float, extra: tuple[Collective, ...] = ()) -> Time:
    """`updated`: bytes of weights and optimizer state that the step overwrites; what else is an argument may be read in part, or not at all.

    `stablehlo_flops` are those of one device; `extra` collectives are not in the program (data parallelism of a one-device script).
    """
    # XLA counts the body of a loop once when it does not know the trip count; StableHLO's figure is too high for the
    # backward pass of strided convolutions (ResNet-50: 1.81 against 1.57 TFLOP by hand).
    from_xla = xla_flops > 0 and not program.loops
    flops = xla_flops if from_xla else max(stablehlo_flops, xla_flops)
    arithmetic = flops / generation.peak_flops
    traffic = 2 * updated / generation.hbm_bandwidth  # read once, written once
    exchanged = sum(seconds(collective, generation) for collective in (*program.collectives, *extra))
    return Time(
        flops=flops,
        flops_source="XLA" if from_xla else "StableHLO",
        lower_bound=max(arithmetic, traffic),
        bound_by="FLOPs" if arithmetic >= traffic else "memory",
        cost_model=program.cycles / (generation.clock_ghz * 1e9) if program.costed else None,
        collectives=exchanged,
        peak_flops=generation.peak_flops,
    )


def seconds(collective: Collective, generation: Generation) -> float:
    """Time of all collectives of a kind: what one device sends, over all of its links."""
    return sent(collective) / generation.ici_bandwidth


def sent(collective: Collective) -> float:
    """Bytes one device sends in ring algorithms: (n-1)/n of the whole; twice that for a reduction that all get."""
    others = collective.group - 1
    if collective.kind == "collective-permute":
        return collective.bytes
    if collective.kind == "reduce-scatter":
        return collective.bytes * others  # the result is one part in n
    share = others / collective.group
    return collective.bytes * share * (2 if collective.kind == "all-reduce" else 1)
