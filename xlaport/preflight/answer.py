"""From a traced step and the compiler's answer to a result: the verdict, memory by kind, times, and what has to be said."""

from __future__ import annotations

from dataclasses import dataclass

from xlaport.preflight import estimate, memory
from xlaport.preflight.compilation import Compilation, Compiled
from xlaport.preflight.hlo import Collective, Optimized
from xlaport.preflight.memory import Memory
from xlaport.preflight.result import Effort, Result, Verdict, Versions
from xlaport.preflight.step import Site, Variant
from xlaport.preflight.topology import Topology
from xlaport.preflight.tracing import Traced, Tracer, Untraced

WITHOUT_FIGURES = {"refused": Verdict.UNSUPPORTED, "topology": Verdict.UNKNOWN, "broken": Verdict.UNKNOWN, "died": Verdict.UNKNOWN}


@dataclass(frozen=True)
class Preflight:
    """Everything needed to answer: who traces, who compiles."""

    tracer: Tracer
    compilation: Compilation

    def ask(self, topology: Topology, variant: Variant = Variant()) -> Result:
        """Trace the step for this slice, compile it, and judge."""
        step = self.tracer.trace(topology.devices, topology.chips, variant)
        if isinstance(step, Untraced):
            verdict = Verdict.UNSUPPORTED if runs_on_host(step.sites) else Verdict.UNKNOWN
            return Result(topology, verdict, step.reason, variant=variant, sites=step.sites)
        return judged(step, self.compilation.compile(step, topology), topology, variant)


def judged(step: Traced, compiled: Compiled, topology: Topology, variant: Variant = Variant()) -> Result:
    held = held_memory(step, compiled, topology)
    assumed = data_parallel(step, topology) if held else ()
    program = compiled.program
    flops = compiled.stablehlo_flops / (topology.devices if step.spmd else 1)
    time = None
    if held:
        time = estimate.of_step(topology.generation, program or NOTHING, step.updated_bytes, compiled.xla_flops, flops, assumed)
    return Result(
        topology=topology,
        verdict=verdict(step, compiled, held),
        reason=compiled.error if compiled.status not in ("ok", "oom") else "",
        spmd=step.spmd,
        variant=variant,
        memory=held,
        time=time,
        kinds=step.bytes_by_kind(),
        collectives=(*(program.collectives if program else ()), *assumed),
        sites=step.sites,
        buffers=compiled.buffers,
        notes=(*step.notes, *notes(step, compiled, held, topology)),
        parameters=step.parameters,
        arguments=step.arguments,
        outputs=step.outputs,
        batch=step.batch,
        steps=step.steps,
        versions=Versions(compiled.jax, compiled.libtpu, step.torch, step.torch_xla, step.torchax),
        effort=Effort(step.seconds, step.rss, compiled.seconds, compiled.rss, step.cpu, compiled.cpu, compiled.cached),
    )


NOTHING = Optimized(0, 0, 0, 0, 0, ())
"""A program that was not compiled to its end."""


def held_memory(step: Traced, compiled: Compiled, topology: Topology) -> Memory | None:
    limit = topology.generation.hbm_limit
    if compiled.status == "ok":
        return memory.of_compiled(compiled.stats, limit)
    if compiled.status == "oom":
        return memory.of_exhausted(compiled.error, sum(step.bytes_by_kind().values()), limit)
    return None


def verdict(step: Traced, compiled: Compiled, held: Memory | None) -> Verdict:
    if held is None:
        return WITHOUT_FIGURES[compiled.status]
    if not held.fits:
        return Verdict.DOES_NOT_FIT
    return Verdict.UNSUPPORTED if runs_on_host(step.sites) else Verdict.FITS


def runs_on_host(sites: tuple[Site, ...]) -> bool:
    """Does the step hold operations that do not run on the device? One that reads is slow, and supported."""
    return any(site.kind == "unlowered" for site in sites)


def data_parallel(step: Traced, topology: Topology) -> tuple[Collective, ...]:
    """A one-device step on several devices: each has a replica and the gradients are summed."""
    if step.spmd or topology.devices == 1 or not step.trainable_bytes:
        return ()
    return (Collective("all-reduce", 1, step.trainable_bytes, topology.devices),)


def notes(step: Traced, compiled: Compiled, held: Memory | None, topology: Topology) -> list[str]:
    """What limits the figures, in sentences; nothing where there are none."""
    if held is None:
        return []
    found = []
    if not step.spmd and topology.devices > 1:
        found.append(
            f"a one-device step on {topology.devices} {devices_word(topology)}: data parallel, its batch on each, all-reduce estimated; "
            "only SPMD programs spread memory"
        )
    if held.is_tight:
        found.append("the compiler uses what memory there is, so how much room is left is not known")
    program = compiled.program
    if program and not program.costed:
        found.append("the compiled program carries no cost estimate, so there is no cost-model time")
    if program and program.uncosted:
        found.append(f"{program.uncosted} custom {'kernel is' if program.uncosted == 1 else 'kernels are'} not in the cost-model time")
    if program and program.unknown_loops:
        found.append(f"{loops(program.unknown_loops)} counted once in the cost-model time")
    if compiled.unknown_loops:
        found.append(f"{loops(compiled.unknown_loops)} counted once in the FLOPs")
    if not compiled.buffers:
        found.append("the compiler left no memory report: the largest buffers are not known")
    return found


def loops(count: int) -> str:
    return f"{count} {'loop of unknown length is' if count == 1 else 'loops of unknown length are'}"


def devices_word(topology: Topology) -> str:
    return "chips" if topology.generation.devices_per_chip == 1 else "cores"
