"""Runs of one program that begin every step with the same state, so that one step is compared and chaos is left out.

The leader writes what each step of an optimizer made: gradients, parameters, optimizer state, buffers. A follower makes
the same step from the same state, compares, and takes the leader's state for the next one. Files carry the state, at most
`AHEAD` of them a follower.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import torch
from torch.optim import Optimizer

from xlaport.runtime.inside import counters, perturbation
from xlaport.runtime.inside.held import local, parameters
from xlaport.runtime.inside.modules import Modules
from xlaport.runtime.inside.session import Session
from xlaport.runtime.job import LockStep

AHEAD = 2
POLL = 0.01
"""Seconds between looks for a file."""


class Companion:
    """This run's part of a lock-step. Steps of all optimizers count, in the order in which they are made."""

    def __init__(self, session: Session, plan: LockStep):
        self.session, self.plan = session, plan
        self.folder = Path(plan.folder)
        self.modules = Modules()
        self.parent = os.getppid()
        self.made = self.losses = 0
        self.before: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor | None] = []
        self.capture()

    def capture(self) -> None:
        self.modules.capturing = self.plan.trace == self.made

    def before_step(self, optimizer: Optimizer) -> None:
        held = parameters(optimizer)
        counters.compute()
        self.before = [host(p) for p in held]
        self.gradients = [None if p.grad is None else host(p.grad) for p in held]

    def after_step(self, optimizer: Optimizer, losses: int) -> None:
        """`losses` is how many backward passes came before."""
        self.losses = losses
        counters.compute()
        after = {"before": self.before, "gradients": self.gradients, "parameters": [host(p) for p in parameters(optimizer)]}
        outputs = self.modules.take_outputs() if self.modules.capturing else []
        if self.plan.leads:
            self.publish({**after, "state": state(optimizer), "buffers": [host(b) for b in self.modules.buffers()], "outputs": outputs})
        else:
            self.follow(optimizer, after, outputs)
        self.made += 1
        self.capture()

    # -- the leader

    def publish(self, values: dict) -> None:
        written = self.folder / f"{self.made:06d}.writing"
        torch.save(values, written)
        for name in self.plan.followers:
            self.wait(lambda: not self.file(name, self.made - AHEAD).exists(), name)
            os.link(written, self.file(name, self.made))
        written.unlink()

    def file(self, name: str, step: int) -> Path:
        return self.folder / f"{step:06d}.{name}.pt"

    def wait(self, done, other: str) -> bool:
        """Until `done`, or until the other run is gone; whether it is done."""
        gone = self.folder / f"gone.{other}"
        while not done():
            if gone.exists():
                return done()
            if os.getppid() != self.parent:
                self.session.stop()  # nobody waits for this run any more
            time.sleep(POLL)
        return True

    # -- a follower

    def follow(self, optimizer: Optimizer, after: dict, outputs: list) -> None:
        file = self.file(self.plan.name, self.made)
        if not self.wait(file.exists, "leader"):
            self.session.record("alone", at=self.made)
            self.session.stop()
        led = torch.load(file, map_location="cpu", weights_only=True)
        file.unlink()
        self.compare(optimizer, led, after)
        if outputs and led["outputs"]:
            self.compare_outputs(led["outputs"], outputs)
        self.take(optimizer, led)

    def compare(self, optimizer: Optimizer, led: dict, own: dict) -> None:
        sizes = [[tuple(p.shape) for p in values["parameters"]] for values in (led, own)]
        if sizes[0] != sizes[1]:
            self.session.record("mismatch", at=self.made, led=len(sizes[0]), own=len(sizes[1]))
            self.session.stop()
        names = self.modules.parameter_names()
        update = [[after - before for before, after in zip(values["before"], values["parameters"])] for values in (led, own)]
        self.session.record(
            "lock",
            at=self.made,
            losses=self.losses,
            names=[names.get(id(p), f"parameter {i}") for i, p in enumerate(parameters(optimizer))],
            start=apart(led["before"], own["before"]),
            gradient=apart(led["gradients"], own["gradients"]),
            update=apart(*update),
            gradient_size=abs(along(led["gradients"], own["gradients"]) - 1),
            update_size=abs(along(*update) - 1),
            each=each(led["gradients"], own["gradients"]),
            missing=[i for i, (a, b) in enumerate(zip(led["gradients"], own["gradients"])) if (a is None) != (b is None)],
        )

    def compare_outputs(self, led: list, own: list) -> None:
        for (name, kind, reference), (called, _, output) in zip(led, own):
            largest, mean = distance(reference, output) if name == called else (math.inf, math.inf)
            self.session.record("output", name=name, type=kind, largest=largest, mean=mean)
            if name != called:  # a module that only one side calls: from here on, nothing corresponds
                return

    def take(self, optimizer: Optimizer, led: dict) -> None:
        """The leader's parameters, optimizer state and buffers."""
        held = parameters(optimizer)
        with torch.no_grad():
            for parameter, values in zip(held, led["parameters"]):
                put(parameter, values)
            for index, entries in led["state"].items():
                put_state(optimizer.state.get(held[index]), entries)
            for buffer, values in zip(self.modules.buffers(), led["buffers"]):
                if buffer.shape == values.shape:
                    put(buffer, values)
        if self.session.job.perturb is not None:
            perturbation.perturb(held, self.session.job.perturb * 1009 + self.made, size=perturbation.KERNELS)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the host, of a DTensor this rank's part."""
    own = local(tensor).detach()
    return (own.to_dense() if own.is_sparse else own).cpu().clone()


def state(optimizer: Optimizer) -> dict[int, dict]:
    """Position of a parameter -> its state: tensors on the host, numbers as they are."""
    found = {}
    for index, parameter in enumerate(parameters(optimizer)):
        entries = optimizer.state.get(parameter)
        if entries:
            found[index] = {name: host(v) if isinstance(v, torch.Tensor) else v for name, v in entries.items() if isinstance(v, (torch.Tensor, int, float))}
    return found


def put_state(own: dict | None, entries: dict) -> None:
    """What both have; an optimizer that keeps no momentum is not given one."""
    for name, value in entries.items():
        if own is None or name not in own:
            continue
        if isinstance(own[name], torch.Tensor) and isinstance(value, torch.Tensor):
            put(own[name], value)
        else:
            own[name] = value


def put(target: torch.Tensor, values: torch.Tensor) -> None:
    """Past autograd: a graph made before this step may hold the tensor, and be right to (running statistics).

    Numbers go over as lists of one: torch_xla takes a 0-dimensional host tensor for a constant of the graph (2.9), and
    a count that grows would compile every step.
    """
    own = local(target)
    own.data.copy_(values.to(own.dtype).reshape(-1).to(own.device).reshape(own.shape))


def distance(reference: torch.Tensor, output: torch.Tensor) -> tuple[float, float]:
    """Largest and mean difference in units of the reference's root mean square; infinite between other shapes."""
    if reference.shape != output.shape:
        return math.inf, math.inf
    scale = reference.double().pow(2).mean().sqrt().item() or 1.0
    difference = (reference.double() - output.double()).abs()
    return difference.max().item() / scale, difference.mean().item() / scale


def total(tensors: list[torch.Tensor]) -> float:
    return sum(t.double().pow(2).sum().item() for t in tensors) ** 0.5


def apart(led: list[torch.Tensor | None], own: list[torch.Tensor | None]) -> float:
    """|led - own| / |led| over all tensors together, in float64; a missing tensor is zero."""
    pairs = [(a if a is not None else torch.zeros_like(b), b if b is not None else torch.zeros_like(a)) for a, b in zip(led, own) if a is not None or b is not None]
    size = total([a.float() for a, _ in pairs])
    difference = total([a.double() - b.double() for a, b in pairs])
    return difference / size if size else float(difference > 0)


def along(led: list[torch.Tensor | None], own: list[torch.Tensor | None]) -> float:
    """How long `own` is in the direction of `led`, as a multiple of it: rounding cancels here, a wrong factor does not."""
    pairs = [(a.double(), b.double()) for a, b in zip(led, own) if a is not None and b is not None]
    size = sum(a.pow(2).sum().item() for a, _ in pairs)
    return sum((a * b).sum().item() for a, b in pairs) / size if size else 1.0


def each(led: list[torch.Tensor | None], own: list[torch.Tensor | None]) -> list[float]:
    """The same for each tensor, against its own size."""
    return [apart([a], [b]) if a is not None or b is not None else 0.0 for a, b in zip(led, own)]
