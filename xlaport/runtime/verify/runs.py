"""The runs a verification makes: the reference several times, the port once; and all of them in lock-step."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from xlaport import usercache
from xlaport.runtime import launcher, program, replicas
from xlaport.runtime.job import REPLICAS, Job, LockStep
from xlaport.runtime.program import Program
from xlaport.runtime.verify.traces import Trace, trace

DRAWS = 3
"""Runs of the reference with perturbed weights."""


@dataclass(frozen=True)
class Pair:
    """What is compared, and how it is run.

    The reference runs on the CPU, CUDA carried there. The port runs as it is, or carried to XLA (`carry_port`) where it
    is the unported program. `limit` is in seconds a run; `jobs` runs go side by side. With `replicas` the reference runs in
    as many processes under gloo, and the port's replicas take turns on virtual devices. With `devices` the port is sharded
    over as many, and the reference is one process with the whole batch.
    """

    reference: Program
    port: Program
    steps: int
    seed: int
    host_random: bool
    limit: float
    jobs: int
    carry_port: bool = False
    replicas: int = 1
    devices: int = 1

    @property
    def is_alone(self) -> bool:
        """One device on both sides: then states can be handed from one to the other."""
        return self.replicas == self.devices == 1


@dataclass(frozen=True)
class Reference:
    """The original's own runs. `base` has two threads or more; `again` is one of its draws, unperturbed, with one.

    Without draws the base could not run, or showed no loss.
    """

    base: Trace
    again: Trace | None = None
    draws: tuple[Trace, ...] = ()


@dataclass(frozen=True)
class Free:
    """Runs that go their own ways."""

    reference: Reference
    port: Trace

    @property
    def base(self) -> Trace:
        return self.reference.base

    @property
    def draws(self) -> tuple[Trace, ...]:
        return self.reference.draws


@dataclass(frozen=True)
class Locked:
    """Records of the followers of one lock-step: the reference's own, and the port's; `led` is the leader's trace.

    `mixed`: the leader and the port compute in mixed precision.
    """

    led: Trace
    own: tuple[Trace, ...]
    port: Trace
    mixed: bool = False

    def cut(self) -> str | None:
        """Why it ended before its time, if it did. It goes on without one of the reference's own, which not every program
        lets run in full precision: the envelope is narrower then, never wider."""
        return next((run.ran.reason() for run in (self.led, self.port) if not run.ran.good), None)


Progress = Callable[[str], None]


def threads() -> int:
    return max(2, os.cpu_count() or 2)


def free(pair: Pair, folder: Path, said: Progress, known: Reference | None = None) -> Free:
    """All runs of a verification without lock-step; `known` are runs of the reference made before."""
    if known is not None:
        return Free(known, ported(pair, folder / "port", said))
    with ThreadPoolExecutor(pair.jobs) as pool:
        base = pool.submit(reference, pair, folder / "base", said, threads=threads())
        port = pool.submit(ported, pair, folder / "port", said)
        return Free(drawn(pair, base.result(), folder, said, pool), port.result())


def references(pair: Pair, folder: Path, said: Progress) -> Reference:
    with ThreadPoolExecutor(pair.jobs) as pool:
        return drawn(pair, reference(pair, folder / "base", said, threads=threads()), folder, said, pool)


def drawn(pair: Pair, base: Trace, folder: Path, said: Progress, pool: ThreadPoolExecutor) -> Reference:
    """The other runs of the reference; none when the base says that they would be in vain."""
    if not comparable(base):
        return Reference(base)
    waiting = [pool.submit(reference, pair, folder / "again", said, threads=1)]
    waiting += [pool.submit(reference, pair, folder / f"draw{i}", said, threads=1, perturb=i) for i in range(1, DRAWS + 1)]
    if autocasts(base):
        waiting.append(pool.submit(reference, pair, folder / "full", said, threads=1, autocast=False))
    runs = [run.result() for run in waiting]
    return Reference(base, runs[0], tuple(run for run in runs if run.ran.good))


def comparable(run: Trace) -> bool:
    return run.ran.good and bool(run.losses)


def autocasts(run: Trace) -> bool:
    return any(name.startswith("autocast") for record in run.ran.of_kind("carried") for name in record["counts"])


def job(pair: Pair, folder: Path, **changes) -> Job:
    settings = {"steps": pair.steps, "seed": pair.seed, "host_random": pair.host_random, "record": True, "graphs": kept_graphs(), "port": launcher.free_port()}
    return Job(str(folder), str(program.ROOT), **{**settings, **changes})


def kept_graphs() -> str | None:
    """A folder for compiled graphs, where the device can take them back: XLA:CPU cannot ("not supported", 2.9)."""
    return str(usercache.folder("graphs")) if os.environ.get("PJRT_DEVICE") == "TPU" else None


def reference(pair: Pair, folder: Path, said: Progress, **changes) -> Trace:
    said(f"original on the CPU ({folder.name})")
    return trace(program.run(original(pair), job(pair, folder, carry="cpu", **changes), pair.limit))


def original(pair: Pair) -> Program:
    """The reference as it is started: in a sharded pair with what a launcher says to the only process it starts, on a host
    with as many devices as the port has; one that starts a process for each of them sees one."""
    if pair.replicas > 1:
        return pair.reference.on(pair.replicas)
    if pair.devices == 1:
        return pair.reference
    seen = 1 if pair.reference.starts_own_processes else pair.devices
    return pair.reference.with_environment(**launcher.alone(), **{REPLICAS: str(seen)})


def on_devices(pair: Pair) -> Program:
    """The port as it is started."""
    if pair.devices > 1:
        return pair.port.with_environment(PJRT_DEVICE="CPU", TPU_SKIP_MDS_QUERY="1", CPU_NUM_DEVICES=str(pair.devices))
    if pair.replicas == 1:
        return pair.port
    started = pair.port if pair.port.starts_own_processes else launcher.started_by_it(pair.port)
    return started.with_environment(**replicas.environment(pair.replicas))


def ported(pair: Pair, folder: Path, said: Progress, **changes) -> Trace:
    said(f"port on XLA ({folder.name})")
    carry = "xla" if pair.carry_port else None
    return trace(program.run(on_devices(pair), job(pair, folder, carry=carry, threads=threads(), replicas=pair.replicas, **changes), pair.limit))


# -- lock-step


LEADER = "leader"
FOLLOWERS = ("own1", "own2", "port")


def locked(pair: Pair, folder: Path, said: Progress, mixed: bool, traced: int | None = None, autocast: bool = True) -> Locked:
    """A leader, two followers of the reference (perturbed) and the port, at the same time: each waits for the leader.

    Where precision is `mixed` one of the reference's followers computes in full precision, since a perturbation of 1e-6
    seldom changes how a number is rounded to bfloat16. Without `autocast` all of them do.
    """
    mixed = mixed and autocast
    shared = folder / "states"
    shared.mkdir(parents=True)
    plans = {name: LockStep(str(shared), name, FOLLOWERS, traced) for name in (LEADER, *FOLLOWERS)}
    said("lock-step" if autocast else "lock-step in full precision")
    quiet: Progress = lambda text: None
    pair = replace(pair, limit=pair.limit * 2)
    runs = {
        LEADER: lambda: reference(pair, folder / LEADER, quiet, threads=1, autocast=autocast, lockstep=plans[LEADER]),
        "own1": lambda: reference(pair, folder / "own1", quiet, threads=2, perturb=1, autocast=autocast, lockstep=plans["own1"]),
        "own2": lambda: reference(pair, folder / "own2", quiet, threads=1, perturb=2, autocast=autocast and not mixed, lockstep=plans["own2"]),
        "port": lambda: ported(pair, folder / "port", quiet, autocast=autocast, lockstep=plans["port"]),
    }

    def run(name: str) -> Trace:
        try:
            return runs[name]()
        finally:
            (shared / f"gone.{name}").touch()

    with ThreadPoolExecutor(len(runs)) as pool:
        led, *own, port = pool.map(run, runs)
    return Locked(led, tuple(own), port, mixed)
