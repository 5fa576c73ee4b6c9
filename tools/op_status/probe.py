"""Runs one call on the CPU and on XLA, and reads what torch_xla's counters say about it.

Each `Job` is a list of calls run in a forked process of its own: some calls abort
the process, and compiled graphs must not leak from one job to the next. A job
writes one JSON line a call; when it dies or hangs, the parent records that call
and starts the job again behind it.
"""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch_xla
from torch.utils import _pytree as pytree

_HOST_SCALAR = "aten::_local_scalar_dense"
_DEVICE_READ = "TransferFromDeviceTime"
_TOLERANCE = 2e-3
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Call:
    """One way to call an API. `run` gets the moved `inputs` and the device."""

    apis: tuple[str, ...]
    inputs: Any
    run: Callable[[Any, torch.device], Any]
    text: str
    features: tuple[str, ...] = ()
    finish: Callable[[Any], Any] = lambda output: output
    """Makes the output comparable (an SVD is unique up to signs only)."""

    comparable: bool = True


@dataclass(frozen=True)
class Job:
    source: str
    """Where the calls come from; the entry names it."""

    name: str
    calls: Callable[[], list[Call]]


@dataclass(frozen=True)
class Usage:
    """What the counters counted during one pass."""

    fallback: tuple[str, ...] = ()
    reads: int = 0


@dataclass(frozen=True)
class Observation:
    apis: tuple[str, ...]
    text: str
    features: tuple[str, ...]
    forward: Usage | None = None
    backward: Usage | None = None
    error: str | None = None
    differs: str | None = None
    after_others: str | None = None
    """What went wrong in a process that ran other calls before, and does not when the call is alone."""

    index: int = 0
    """Its place among the calls of its job."""


@dataclass
class _Outcome:
    stage: str = "forward"
    random: bool = False
    output: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    forward: Usage | None = None
    backward: Usage | None = None


def _fallback_counts() -> dict[str, int]:
    extension = torch_xla._XLAC
    return {name: extension._xla_counter_value(name) for name in extension._get_executed_fallback_ops()}


def _device_reads() -> int:
    data = torch_xla._XLAC._xla_metric_data(_DEVICE_READ)
    return data[0] if data else 0


def _counted(action: Callable[[], Any]) -> tuple[Any, Usage]:
    before, reads = _fallback_counts(), _device_reads()
    result = action()
    changed = {name for name, count in _fallback_counts().items() if count != before.get(name, 0)}
    return result, Usage(tuple(sorted(changed - {_HOST_SCALAR})), _device_reads() - reads)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    return device if isinstance(value, torch.device) else value


def moved(tree: Any, device: torch.device) -> Any:
    return pytree.tree_map(lambda leaf: _moved(leaf, device), tree)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _gradients(inputs: Any) -> list[torch.Tensor | None]:
    leaves = pytree.tree_leaves(inputs)
    own = [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    modules = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Module)]
    return own + [parameter.grad for module in modules for parameter in module.parameters()]


def _run(call: Call, device: torch.device, backward: bool, outcome: _Outcome) -> _Outcome:
    """Fills `outcome` step by step, so that an error leaves what came before it."""
    torch.manual_seed(0)
    state = torch.get_rng_state()
    inputs = moved(call.inputs, device)
    if device.type == "xla":
        torch_xla.sync()
    output, outcome.forward = _counted(lambda: call.run(inputs, device))
    finished = _finished(call, output)
    outcome.output = pytree.tree_leaves(finished)
    roots = [tensor for tensor in _tensors(finished) if tensor.requires_grad]
    if backward and roots:
        outcome.stage = "backward"
        ones = [torch.ones_like(tensor) for tensor in roots]
        _, outcome.backward = _counted(lambda: torch.autograd.backward(roots, ones))
        outcome.gradients = _gradients(inputs)
    outcome.stage = "compilation"
    outcome.random = not torch.equal(state, torch.get_rng_state())
    return outcome


def _finished(call: Call, output: Any) -> Any:
    """Nothing when the operators that only make the output comparable fail: they are not what is measured."""
    try:
        return call.finish(output)
    except RuntimeError:
        return []


def _reference(call: Call) -> tuple[_Outcome, bool]:
    """The CPU's result, and whether it has a backward pass."""
    try:
        return _run(call, _CPU, True, _Outcome()), True
    except RuntimeError:
        return _run(call, _CPU, False, _Outcome()), False


def _difference(reference: Any, measured: Any) -> str | None:
    if not isinstance(reference, torch.Tensor):
        return None
    if not isinstance(measured, torch.Tensor):
        return "kind"
    if reference.dtype != measured.dtype:
        return f"dtype: {_short(reference.dtype)} on CPU, {_short(measured.dtype)} on XLA"
    if reference.shape != measured.shape:
        return f"shape: {list(reference.shape)} on CPU, {list(measured.shape)} on XLA"
    return None if _close(reference, measured.detach().cpu()) else "values"


def _close(reference: torch.Tensor, measured: torch.Tensor) -> bool:
    if reference.layout is not torch.strided or reference.is_quantized:
        return True
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (reference.detach(), measured))
    return torch.allclose(a.double(), b.double(), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def _first_difference(reference: _Outcome, measured: _Outcome) -> str | None:
    for part, ours, theirs in (
        ("output", reference.output, measured.output),
        ("gradient", reference.gradients, measured.gradients),
    ):
        for a, b in zip(ours, theirs):
            if difference := _difference(a, b):
                return f"{part} {difference}"
    return None


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


_NOISE = re.compile(r"\s+|0x[0-9a-f]+|/\S+/")


def short_error(error: BaseException) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {_NOISE.sub(' ', first).strip()}"[:140].rstrip(": ")


def observe(call: Call, index: int) -> Observation | None:
    """None when the call is not valid on the CPU either, or gives nothing."""
    try:
        reference, has_backward = _reference(call)
    except Exception:
        return None
    if any(tensor.numel() == 0 for tensor in reference.output if isinstance(tensor, torch.Tensor)):
        return None
    measured, error = _Outcome(), None
    try:
        _run(call, torch_xla.device(), has_backward, measured)
        torch_xla.sync(wait=True)
    except Exception as raised:
        error = f"{measured.stage}: {short_error(raised)}"
    differs = _compare(call, reference, measured)
    return Observation(call.apis, call.text, call.features, measured.forward, measured.backward, error, differs, index=index)


def _compare(call: Call, reference: _Outcome, measured: _Outcome) -> str | None:
    """How the values differ from the CPU's. Random values are not compared."""
    if reference.random or not call.comparable:
        return None
    try:
        return _first_difference(reference, measured)
    except RuntimeError:  # what failed to compile cannot be read
        return None


def _to_json(observation: Observation | None) -> Any:
    if observation is None:
        return None
    usages = {key: (usage.fallback, usage.reads) for key in ("forward", "backward") if (usage := getattr(observation, key))}
    return {**vars(observation), **usages}


def _from_json(record: dict[str, Any]) -> Observation:
    usages = {key: Usage(tuple(record[key][0]), record[key][1]) for key in ("forward", "backward") if record[key]}
    lists = {key: tuple(record[key]) for key in ("apis", "features")}
    return Observation(**{**record, **usages, **lists})


def _child(job: Job, start: int, path: str) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    torch.zeros(1, device=torch_xla.device())  # autograd counts the devices once, at its first backward pass
    calls = job.calls()
    with open(path, "a", encoding="utf-8") as out:
        for index, call in enumerate(calls[start:], start):
            coming = Observation(call.apis, call.text, call.features, index=index)
            print(json.dumps(_to_json(coming)), file=out, flush=True)
            print(json.dumps(_to_json(observe(call, index))), file=out, flush=True)
        print("end", file=out, flush=True)


@dataclass
class _Running:
    """A forked job. Its file alternates: what comes next, then what was seen."""

    job: Job
    path: str
    start: int = 0
    pid: int = 0
    size: int = 0
    since: float = 0.0

    def fork(self) -> None:
        self.since, self.size = time.monotonic(), os.path.getsize(self.path)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _child(self.job, self.start, self.path)
            finally:
                os._exit(0)

    def stuck(self, limit: float) -> bool:
        size = os.path.getsize(self.path)
        if size != self.size:
            self.size, self.since = size, time.monotonic()
        return time.monotonic() - self.since > limit

    def lines(self) -> list[str]:
        with open(self.path, encoding="utf-8") as file:
            return file.read().splitlines()

    def finished_or_restarted(self, cause: str) -> bool:
        """True when every call is accounted for; otherwise the dead call is recorded and the job goes on."""
        lines = self.lines()
        if lines and lines[-1] == "end" or len(lines) % 2 == 0:
            return True
        dead = {**json.loads(lines[-1]), "error": cause}
        with open(self.path, "a", encoding="utf-8") as out:
            print(json.dumps(dead), file=out)
        self.start = (len(lines) + 1) // 2
        self.fork()
        return False

    def observations(self) -> list[Observation]:
        records = [json.loads(line) for line in self.lines() if line != "end"][1::2]
        os.unlink(self.path)
        return [_from_json(record) for record in records if record is not None]


def _start(job: Job) -> _Running:
    handle, path = tempfile.mkstemp(suffix=".jsonl")
    os.close(handle)
    running = _Running(job, path)
    running.fork()
    return running


def _ended(running: _Running, limit: float) -> str | None:
    pid, status = os.waitpid(running.pid, os.WNOHANG)
    if pid:
        return f"process ended by signal {status}" if status else "process ended"
    if running.stuck(limit):
        os.kill(running.pid, signal.SIGKILL)
        os.waitpid(running.pid, 0)
        return f"no answer within {limit:.0f} s"
    return None


def run_jobs(jobs: list[Job], parallel: int, limit: float) -> Iterator[tuple[Job, list[Observation]]]:
    """Runs every job, `parallel` at a time. `limit` is the longest a single call may take, in seconds."""
    waiting, active = list(reversed(jobs)), []
    while waiting or active:
        while waiting and len(active) < parallel:
            active.append(_start(waiting.pop()))
        time.sleep(0.02)
        for running in list(active):
            cause = _ended(running, limit)
            if cause and running.finished_or_restarted(cause):
                active.remove(running)
                yield running.job, running.observations()


def alone(job: Job, seen: Observation) -> Job:
    """The job of one call of `job`, in a process of its own."""
    return Job(job.source, f"{job.name} [{seen.index}]", lambda: job.calls()[seen.index : seen.index + 1])


def confirmed(seen: Observation, again: list[Observation]) -> Observation:
    """What a suspicious call is when it runs alone: two calls may share a cached graph that fits only one of them."""
    if not again:
        return seen
    single = replace(again[0], index=seen.index)
    if single.error or single.differs:
        return single
    return replace(single, after_others=seen.error or seen.differs)
