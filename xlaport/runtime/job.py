"""What the parent asks of a program's process, as JSON: read by the parent and inside the program, without torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

JOB = "XLAPORT_JOB"
"""Environment variable that names the file of the job; without it the boot does nothing."""

LEFT_OUT = "left out: "
"""What a carried program does without is counted under a name that starts so."""

LINES, CAUSES = "lines", "causes"
"""Passes of a profile (`Job.profile`): the second makes torch_xla remember lines of Python, and keeps graphs, which takes time."""

REPLICAS = "XLAPORT_REPLICAS"
"""Environment variable: how many devices a program is told it has (default 1)."""


@dataclass(frozen=True)
class LockStep:
    """One of several runs that begin every step with the same parameters, buffers and optimizer state.

    The leader's states go through `folder`; each follower in `followers` takes and removes its own copy.
    `name` is this run's; the leader's is not in `followers`. Outputs of modules are compared at `trace` (a step), if any.
    """

    folder: str
    name: str
    followers: tuple[str, ...]
    trace: int | None = None

    @property
    def leads(self) -> bool:
        return self.name not in self.followers


@dataclass(frozen=True)
class Job:
    """One run of a program.

    `folder` takes what is recorded. `root` is the folder the package xlaport is in. `carry` names the device that CUDA
    calls are carried to (None: they are left alone). The run stops after `steps` optimizer steps (None: never).
    `perturb` is the seed of a relative perturbation of 1e-7 of all parameters (None: none; 1e-6 in lock-step). `host_random` draws random
    numbers of all devices from the generator of the host. `record` switches the loss tap on, `profile` the attribution
    of device work to lines, and names the pass; `autocast` False takes mixed precision out. A run that is `compared` with others has data
    loaders without workers, and records norms of gradients and parameters with each step. `replicas` of a program that
    launches them take turns in its process (runtime/replicas.py); the environment must say so too. `graphs` is a folder
    in which XLA keeps what it compiled. Process groups on this machine meet at `port` (None: where the program says).
    """

    folder: str
    root: str
    carry: str | None = None
    steps: int | None = None
    seed: int | None = None
    threads: int | None = None
    perturb: int | None = None
    host_random: bool = False
    record: bool = False
    compared: bool = True
    autocast: bool = True
    profile: str | None = None
    replicas: int = 1
    graphs: str | None = None
    port: int | None = None
    lockstep: LockStep | None = None

    @property
    def kept_graphs(self) -> Path:
        """Where the pass for causes leaves the graphs that its records name."""
        return Path(self.folder, "graphs")

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read(file: str | Path) -> Job:
    values = json.loads(Path(file).read_text(encoding="utf-8"))
    lockstep = values.pop("lockstep")
    if lockstep is not None:
        lockstep = LockStep(**{**lockstep, "followers": tuple(lockstep["followers"])})
    return Job(**values, lockstep=lockstep)
