"""The loss tap: what a program trains, step by step, without a change of its code and without waiting for the device.

A loss is a one-element tensor on which `.backward()` is called. It stays where it is, and is read once it is computed;
so a run with the tap has the graphs of a run without, with the losses and norms as outputs more.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from xlaport.runtime import scalars
from xlaport.runtime.inside import counters, perturbation
from xlaport.runtime.inside.held import local, parameters
from xlaport.runtime.inside.lockstep import Companion
from xlaport.runtime.inside.session import Session

EAGER = 16
"""Records kept on the device before those that are computed are read."""

NO_OPTIMIZER = 4
"""A program without torch's optimizers has done `steps` steps after this many times as many backward passes."""


@dataclass
class Pending:
    """A record whose values are still on their device: name -> tensor (one element, or a list of numbers)."""

    kind: str
    values: dict
    tensors: dict[str, torch.Tensor]

    @property
    def waits(self) -> bool:
        """Whether reading it would launch a graph."""
        return any(counters.is_pending(tensor) for tensor in self.tensors.values())


@dataclass
class Tap:
    """Of one rank: a process, or one of the replicas that share it."""

    session: Session
    rank: int | None
    pending: list[Pending] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    leader: Optimizer | None = None
    steps: int = 0
    losses: int = 0
    before: torch.Tensor | None = None
    companion: Companion | None = None

    def add(self, kind: str, values: dict, tensors: dict[str, torch.Tensor]) -> None:
        self.session.settle()
        self.pending.append(Pending(kind, values, tensors))
        if len(self.pending) >= EAGER:
            self.flush(computed_only=True)

    def flush(self, computed_only: bool = False) -> None:
        """Read what is kept, in order; with `computed_only` up to the first that would launch a graph."""
        while self.pending:
            record = self.pending[0]
            if computed_only and record.waits:
                return
            read = {name: tensor.detach().cpu().tolist() for name, tensor in record.tensors.items()}
            self.session.record(record.kind, self.rank, **record.values, **read)
            self.pending.pop(0)

    # -- losses

    @property
    def is_done(self) -> bool:
        """Whether the steps asked for are made. Replicas that share a process go on until all have come as far, so that
        what they made last is computed: reading it launches a graph, in which one would wait for the others."""
        return self.session.job.steps is not None and self.steps >= self.session.job.steps

    def loss(self, tensor: torch.Tensor) -> None:
        if self.is_done:
            if any(record.waits for record in self.pending):
                counters.compute()  # a step that the program launches with a later one: each replica does it in its turn
            return self.session.stop()
        # A new tensor: a loss that is a view would keep the graph of its base alive.
        scale = getattr(tensor, "_xlaport_scale", None)
        value = tensor.detach().float().reshape(()).clone()
        values = {"at": self.losses, "step": self.steps, "device": tensor.device.type, "dtype": str(tensor.dtype).removeprefix("torch.")}
        self.losses += 1
        self.add("loss", values, {"value": value if scale is None else value / scale})
        limit = self.session.job.steps
        if limit is not None and not self.optimizers and self.losses >= limit * NO_OPTIMIZER:
            self.session.stop()

    def scalar(self, name: str, value) -> None:
        """One that the program names itself."""
        if not self.is_done:
            tensor = torch.as_tensor(value).detach().float().reshape(()).clone()
            self.add("scalar", {"name": name, "step": self.steps}, {"value": tensor})

    # -- steps

    def made(self, optimizer: Optimizer) -> None:
        self.optimizers.append(optimizer)

    def before_step(self, optimizer: Optimizer, arguments, keywords) -> None:
        if self.session.job.compared:
            self.before = norms([p.grad for p in parameters(optimizer)])
        if self.companion is not None:
            self.companion.before_step(optimizer)

    def after_step(self, optimizer: Optimizer, arguments, keywords) -> None:
        if self.is_done:
            return
        self.leader = self.leader or optimizer
        held = parameters(optimizer)
        after = norms(held) if self.session.job.compared else None
        tensors = {name: value for name, value in (("gradients", self.before), ("parameters", after)) if value is not None}
        self.add("step", self.described(optimizer, held), tensors)
        if self.companion is not None:
            self.companion.after_step(optimizer, self.losses)
        if optimizer is not self.leader:
            return
        self.steps += 1
        if self.is_done and self.session.job.replicas == 1:
            self.session.stop()

    def described(self, optimizer: Optimizer, held: list[torch.Tensor]) -> dict:
        reading = counters.read()
        return {
            "step": self.steps,
            "optimizer": next((i for i, known in enumerate(self.optimizers) if known is optimizer), -1),
            "name": type(optimizer).__name__,
            "held": len(held),
            "elements": sum(p.numel() for p in held),
            "without_gradient": sum(p.grad is None for p in held),
            "settings": [settings(group) for group in optimizer.param_groups],
            "devices": sorted({p.device.type for p in held}),
            "time": time.monotonic(),
            "compiled": reading.compiled,
            "launched": reading.launched,
            "transfers": reading.transfers,
            "fallbacks": reading.fallbacks,
        }


SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "betas", "eps", "alpha", "amsgrad", "maximize")
"""Of a parameter group: what decides how a step moves the parameters."""


def settings(group: dict) -> dict:
    """Plain numbers only: a tensor would have to be read."""
    return {name: group[name] for name in SETTINGS if isinstance(group.get(name), (bool, int, float, tuple, list))}


def norm(tensor: torch.Tensor) -> torch.Tensor:
    """In double precision on the CPU, whose sum of 38 million squares in float32 is 0.5 % off; that of XLA:CPU 2e-8 (torch 2.9, measured).

    A float64 tensor keeps its type anywhere: torch refuses to narrow it.
    """
    wide = torch.float64 if tensor.device.type == "cpu" or tensor.dtype == torch.float64 else torch.float32
    return torch.linalg.vector_norm(tensor, dtype=wide).float()


@torch.no_grad()
def norms(tensors: list[torch.Tensor | None]) -> torch.Tensor | None:
    """The 2-norm of each tensor as float32, 0 where there is none, as one tensor on their device; None without tensors.

    Computed in the same graph, without gradients: nothing is read. Not from `detach()`, nor any view: torch_xla 2.9 gives that of
    an accumulated gradient as it was before `xm.reduce_gradients`, and leaves the gradient so for later views.
    """
    given = [local(t) for t in tensors if t is not None]
    if not given or any(t.is_complex() for t in given):
        return None
    given = [t.coalesce().values() if t.is_sparse else t for t in given]
    with torch.autocast(given[0].device.type, enabled=False):
        values = torch.stack([norm(t).to(given[0].device) for t in given])
    if len(given) == len(tensors):
        return values
    rows = iter(values.unbind())
    return torch.stack([next(rows) if t is not None else torch.zeros((), device=values.device) for t in tensors])


class Taps:
    """The taps of this process: one, or one a replica."""

    def __init__(self, session: Session):
        plan = session.job.lockstep
        self.session = session
        self.companion = Companion(session, plan) if plan is not None else None
        self.taps: dict[int | None, Tap] = {}

    def own(self) -> Tap:
        # One process may ask before it has joined a group: its rank is found out with the first record.
        rank = self.session.rank() if self.session.job.replicas > 1 else None
        if rank not in self.taps:
            self.taps[rank] = Tap(self.session, rank, companion=self.companion)
        return self.taps[rank]

    def forget(self) -> None:
        """In a fork: the parent writes what is pending, and a fork cannot read a device."""
        for tap in self.taps.values():
            tap.pending.clear()

    def at_end(self) -> None:
        reading = counters.read()
        for tap in [*self.taps.values()] or [self.own()]:
            # Written before the last values are read: reading launches what is left to compute.
            self.session.record("total", tap.rank, compiled=reading.compiled, launched=reading.launched, fallbacks=reading.fallbacks, random=counters.random_draws())
        if self.session.job.replicas == 1 and any(record.waits for tap in self.taps.values() for record in tap.pending):
            counters.compute()
        for tap in self.taps.values():
            tap.flush()


def install(session: Session) -> None:
    taps = Taps(session)
    scalars.WATCHERS.append(lambda name, value: taps.own().scalar(name, value))
    watch_backward(taps)
    watch_scaler()
    watch_optimizers(taps)
    session.at_end(taps.at_end)
    os.register_at_fork(after_in_child=taps.forget)


def watch_backward(taps: Taps) -> None:
    backward = torch.autograd.backward

    def watched(tensors, *arguments, **keywords):
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            taps.own().loss(tensors)
        return backward(tensors, *arguments, **keywords)

    torch.autograd.backward = watched


def watch_scaler() -> None:
    """A scaled loss remembers its factor."""
    scale = torch.amp.GradScaler.scale

    def scaled(self, outputs):
        result = scale(self, outputs)
        if isinstance(result, torch.Tensor) and self.is_enabled():
            result._xlaport_scale = self._scale.detach().clone()
        return result

    torch.amp.GradScaler.scale = scaled


def watch_optimizers(taps: Taps) -> None:
    made = Optimizer.__init__
    perturbed: set[int] = set()  # several optimizers may hold a parameter

    def init(self, *arguments, **keywords):
        made(self, *arguments, **keywords)
        taps.own().made(self)
        if taps.session.job.perturb is not None:
            size = perturbation.SIZE if taps.session.job.lockstep is None else perturbation.KERNELS
            perturbation.perturb(parameters(self), taps.session.job.perturb, perturbed, size)
            perturbed.update(map(id, parameters(self)))

    Optimizer.__init__ = init
    register_optimizer_step_pre_hook(lambda *arguments: taps.own().before_step(*arguments))
    register_optimizer_step_post_hook(lambda *arguments: taps.own().after_step(*arguments))
