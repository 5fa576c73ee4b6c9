"""What each line of the program made the device do: values read, ops run on the host, graphs launched and compiled.

torch_xla's counters are looked at after every call of torch in Python; what grew belongs to the innermost line of the
program on the stack. So no tensor is held or dropped, and graphs stay as they are. Work of autograd belongs to the line
of `.backward()`, that of hooks and of `autograd.Function` to their own lines.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from types import FrameType

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from xlaport.runtime import modes
from xlaport.runtime.inside import counters, graphs, imports
from xlaport.runtime.inside.counters import Reading
from xlaport.runtime.inside.session import Session
from xlaport.runtime.job import CAUSES
from xlaport.runtime.places import Libraries, Place
from xlaport.runtime.profile.model import Counts, Stack

SIGNS = ("UncachedCompile", "CachedCompile", "xla::_to_cpu", "xla::_copy_from", "xla::_copy_from_and_resize")
"""Counters one of which grows whenever something is counted here, fallbacks and `COPIES` aside. Reading a counter takes
0.3 us; reading the metric of transfers takes 0.1 ms once it has its 1024 samples (measured on 2.9.0)."""

COPIES = "xla::_to_copy"
"""Grows for reads (`.cpu()`), and for every upload and change of type, whose results are on the device."""

ACCESSORS = frozenset({"__get__", "__set__"})
"""Attributes of tensors (shape, grad, data): no work."""

DEPTH = 16
"""Lines of the program's stack that are kept."""

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of what watches the program."""


class Meter:
    """What was counted so far, and whose it is."""

    def __init__(self, session: Session):
        self.session = session
        self.binding = sys.modules["torch_xla"]._XLAC
        self.libraries = Libraries.here(("torch", "torch_xla", "torchvision"))
        self.steps = Steps(self)
        self.off = False
        self.forget()

    def forget(self) -> None:
        """Begin: what is counted until now is nobody's."""
        self.seen = counters.read()
        self.signs, self.copies = self.look()
        self.total = Reading()
        self.spent = self.compile_total = 0.0
        self.compiling = self.compile_seconds()
        self.work: dict[Stack, Counts] = {}
        """Of the step that is under way."""
        self.steps.begin()

    # -- looking

    def look(self) -> tuple[int, int]:
        value = self.binding._xla_counter_value
        signs = sum([value(name) or 0 for name in SIGNS])
        for name in self.binding._get_executed_fallback_ops():
            signs += value(name) or 0
        return signs, value(COPIES) or 0

    def settle(self, frame: FrameType, started: float, spent: float, result: object) -> None:
        """After a call of torch from `frame` that began at `started`, with `spent` seconds given to lines by then."""
        signs, copies = self.look()
        if signs == self.signs and (copies == self.copies or is_on_device(result)):
            self.copies = copies
            return
        self.credit(frame, time.perf_counter() - started - (self.spent - spent))

    def measure(self, function, args, kwargs, ends: bool = False):
        """Call a function that is no call of torch's dispatcher; `ends`: it ends a step of the device."""
        started, spent = time.perf_counter(), self.spent
        try:
            return function(*args, **kwargs)
        finally:
            self.credit(sys._getframe(2), time.perf_counter() - started - (self.spent - spent), ends)

    # -- giving

    def credit(self, frame: FrameType, seconds: float, ends: bool = False) -> None:
        """Give what grew since the last time to the line of the program that `frame` was called from."""
        stack = self.stack(frame)
        if stack == () and threading.current_thread() is not threading.main_thread():
            return  # of autograd's thread: left for the line that called it
        now = counters.read()
        grown, self.seen = growth(self.seen, now), now
        self.signs, self.copies = self.look()
        if stack is None or grown == Reading():
            return
        self.total = added(self.total, grown)
        ended, forced = (grown.launched, 0) if ends else (0, grown.launched)
        done = Counts(1, grown.transfers, forced, ended, grown.compiled, seconds, grown.fallbacks)
        self.work[stack] = self.work.get(stack, Counts()) + done
        self.spent += seconds
        if grown.compiled:
            self.compiled(stack, grown.compiled)

    def compiled(self, stack: Stack, count: int) -> None:
        before, self.compiling = self.compiling, self.compile_seconds()
        seconds = self.compiling - before if self.compiling >= before else self.compiling
        self.compile_total += seconds
        names = graphs.keep(self.session) if self.session.job.profile == CAUSES else []
        self.session.record("compiled", step=self.steps.count, stack=stack, count=count, seconds=seconds, graphs=names)

    def compile_seconds(self) -> float:
        metric = self.binding._xla_metric_data("CompileTime")
        return metric[1] / 1e9 if metric else 0.0

    def stack(self, frame: FrameType | None) -> Stack | None:
        """The program's lines, innermost first; None for what xlaport itself asked for inside the program."""
        found: list[Place] = []
        while frame is not None and len(found) < DEPTH:
            file = frame.f_code.co_filename
            if not found and file.startswith(OWN) and file != __file__:
                return None
            if not self.libraries.owns(file):
                found.append(Place(file, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        return tuple(found)

    def write(self) -> None:
        """Record the work of the step that is under way."""
        for stack, work in self.work.items():
            self.session.record("work", step=self.steps.count, stack=stack, **vars(work))
        self.work = {}


def is_on_device(result: object) -> bool:
    return isinstance(result, torch.Tensor) and result.device.type == "xla"


def growth(before: Reading, now: Reading) -> Reading:
    """What was counted since; a counter that fell was cleared by the program, or by torch_xla for a compiled function."""
    fallbacks = {name: since(before.fallbacks.get(name, 0), count) for name, count in now.fallbacks.items()}
    return Reading(
        since(before.compiled, now.compiled),
        since(before.launched, now.launched),
        since(before.transfers, now.transfers),
        {name: count for name, count in fallbacks.items() if count},
    )


def since(before: int, now: int) -> int:
    return now - before if now >= before else now


def added(total: Reading, grown: Reading) -> Reading:
    names = {**total.fallbacks, **grown.fallbacks}
    return Reading(
        total.compiled + grown.compiled,
        total.launched + grown.launched,
        total.transfers + grown.transfers,
        {name: total.fallbacks.get(name, 0) + grown.fallbacks.get(name, 0) for name in names},
    )


class Polled(TorchFunctionMode):
    """Looks at the counters after every call of torch's functions and methods in Python."""

    def __init__(self, meter: Meter):
        super().__init__()
        self.meter = meter

    def __torch_function__(self, function, types, args=(), kwargs=None):
        meter, result = self.meter, None
        if meter.off or getattr(function, "__name__", "") in ACCESSORS:
            return function(*args, **(kwargs or {}))
        spent, started = meter.spent, time.perf_counter()
        try:
            result = function(*args, **(kwargs or {}))
            return result
        finally:
            meter.settle(sys._getframe(1), started, spent, result)


class Steps:
    """Steps of the program: those of its first optimizer, each with the end of the graph that follows; without an
    optimizer, ends of graphs."""

    def __init__(self, meter: Meter):
        self.meter = meter
        self.optimizers = 0
        self.leader: weakref.ref | None = None

    def begin(self) -> None:
        self.count, self.closing, self.started = 0, False, time.perf_counter()
        self.before, self.compiling = self.meter.total, self.meter.compile_total

    def made(self) -> None:
        """The first optimizer: what came before was no training."""
        self.optimizers += 1
        if self.optimizers == 1 and self.count:
            self.meter.write()
            self.meter.session.record("training")
            self.begin()

    def stepping(self, optimizer: Optimizer) -> None:
        if self.leader is None or self.leader() is None:
            self.leader = weakref.ref(optimizer)
        if self.leader() is not optimizer:
            return
        if self.closing:
            self.end()
        self.closing = True

    def marked(self) -> None:
        """A graph has ended; without an optimizer that is a step, if anything was computed."""
        if self.closing or not self.optimizers and self.meter.total.launched > self.before.launched:
            self.end()

    def end(self) -> None:
        meter, total = self.meter, growth(self.before, self.meter.total)
        forced = sum(work.forced for work in meter.work.values())
        meter.write()
        meter.session.record(
            "step",
            step=self.count,
            seconds=time.perf_counter() - self.started,
            compiled=total.compiled,
            compile_seconds=meter.compile_total - self.compiling,
            launched=total.launched,
            forced=forced,
            transfers=total.transfers,
            fallbacks=sum(total.fallbacks.values()),
        )
        self.before, self.compiling = meter.total, meter.compile_total
        self.count, self.closing, self.started = self.count + 1, False, time.perf_counter()
        limit = meter.session.job.steps
        if limit is not None and self.count >= limit:
            meter.session.stop()


def install(session: Session) -> None:
    """Before anything imports torch_xla."""
    if session.job.profile == CAUSES:
        graphs.prepare(session)
    imports.after("torch_xla", lambda: begin(session))


def begin(session: Session) -> None:
    meter = Meter(session)
    watch_device(meter)
    watch_autograd(meter)
    watch_steps(meter)
    modes.in_threads(lambda: Polled(meter))  # torch_xla.launch trains in one
    watch_forks(meter)
    session.record("device", device=sys.modules["torch_xla"].runtime.device_type(), libraries=meter.libraries.roots)
    session.at_end(meter.write)
    Polled(meter).__enter__()


def watch_forks(meter: Meter) -> None:
    """A forked process has work and graphs of its own. Where the device was in use before, it has none: torch_xla cannot
    be used there, and its counters must not be looked at, as a thread that is gone may hold their lock."""
    state = {"used": False}

    def before() -> None:
        state["used"] = meter.binding._xla_runtime_is_initialized()

    def after() -> None:
        meter.off = meter.off or state["used"]
        if meter.off:
            meter.work = {}
            return
        meter.forget()
        if meter.session.job.profile == CAUSES:
            graphs.prepare(meter.session)

    os.register_at_fork(before=before, after_in_child=after)


def watch_device(meter: Meter) -> None:
    """Functions of the binding that launch graphs: all ways of torch_xla to end a step or compute tensors lead here."""
    binding = meter.binding
    mark, compute, read = binding._xla_step_marker, binding._xla_sync_multi, binding._xla_get_cpu_tensors

    def step_marker(*args, **kwargs):
        meter.measure(mark, args, kwargs, ends=True)
        meter.steps.marked()

    binding._xla_step_marker = step_marker
    binding._xla_sync_multi = lambda *args, **kwargs: meter.measure(compute, args, kwargs)
    binding._xla_get_cpu_tensors = lambda *args, **kwargs: meter.measure(read, args, kwargs)


def watch_autograd(meter: Meter) -> None:
    """The engine that `backward` and `grad` of every kind call, in whose time no mode is active: what it calls back into
    (hooks, backward of `autograd.Function`) is the program's, and looked at call by call."""
    engine = torch.autograd._engine_run_backward

    def run(*args, **kwargs):
        with Polled(meter):
            return engine(*args, **kwargs)

    torch.autograd._engine_run_backward = lambda *args, **kwargs: meter.measure(run, args, kwargs)


def watch_steps(meter: Meter) -> None:
    made = Optimizer.__init__

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        meter.steps.made()

    Optimizer.__init__ = init
    register_optimizer_step_pre_hook(lambda optimizer, *arguments: meter.steps.stepping(optimizer))
