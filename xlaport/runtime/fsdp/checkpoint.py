"""Saving and resuming. Each host writes the shards of its chips; any mesh reads them."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from xlaport.errors import UserError
from xlaport.runtime.fsdp import contents
from xlaport.runtime.fsdp.mesh import Mesh
from xlaport.runtime.fsdp.store import HOST, Draft, Saved, Store
from xlaport.runtime.fsdp.wrapping import wrapped

SHOWN = 3
"""Names of a mismatch that a message spells out."""


@dataclass(frozen=True)
class Resumed:
    """What `load` found: the step that was saved last, and `extra`."""

    step: int
    extra: Mapping[str, Any]


class Saving:
    """A save that goes on in a thread. `wait` returns when the checkpoint is complete, or raises what went wrong."""

    def __init__(self, work: Any) -> None:
        self._error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="fsdp.save")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()


_pending: list[Saving] = []
"""The save that is under way, if one is: one at a time, in order."""


def save(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    step: int,
    url: str | os.PathLike[str],
    *,
    extra: Mapping[str, Any] | None = None,
    keep: int | None = None,
    asynchronous: bool = False,
) -> Saving | None:
    """Write a checkpoint of `step` below `url`, a directory or any fsspec URL; every process of the job calls it.

    It holds parameters, buffers, the optimizer's state, random states and `extra` (plain values and tensors, such as
    `{"scheduler": scheduler.state_dict()}`). An interrupted save leaves the earlier checkpoints as they are, and is not
    taken for one. `keep`: remove all but so many of the newest. `asynchronous`: return once the values are copied to the
    host, and write in a thread; the next save, and the end of the program, wait for it and say what went wrong.
    """
    finish_pending()
    if step < 0:
        raise UserError(f"save: step {step} is negative")
    store = Store(url)
    tensors = contents.model_tensors(model)
    values: dict[str, Any] = {"extra": dict(extra or {}), "random": contents.random_states()}
    if optimizer is not None:
        tensors |= contents.optimizer_tensors(model, optimizer)
        values["optimizer"] = contents.optimizer_values(model, optimizer)
    host = contents.packed(values)
    marker = {
        "step": step, "mesh": str(mesh_of(model)), "torch": torch.__version__, "tensors": contents.described(tensors),
        "tied": contents.tied_names(model), "has_optimizer": optimizer is not None,
    }
    shards = on_host(tensors)
    saving = Saving(lambda: write(store, step, shards, host, marker, keep))
    if not asynchronous:
        saving.wait()
        return None
    _pending.append(saving)
    return saving


@atexit.register  # whose save was the last is told, too, what went wrong
def finish_pending() -> None:
    while _pending:
        _pending.pop().wait()


def on_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Copies of this process's parts: once each, where several chips have the same, and none that are only padding."""
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla.experimental.distributed_checkpoint._helpers import _CpuShards, _sharded_cpu_state_dict

    torch_xla.sync()
    xm.wait_device_ops()
    device = {name: value for name, value in tensors.items() if value.device.type == "xla"}
    copied = {**{name: value.clone() for name, value in tensors.items() if name not in device}, **_sharded_cpu_state_dict(device)}
    return {name: replace(value, shards=distinct(value.shards)) if isinstance(value, _CpuShards) else value for name, value in copied.items()}


def distinct(shards: list[Any]) -> list[Any]:
    found = {tuple((part.start, part.stop) for part in shard.indices): shard for shard in shards}
    return [shard for place, shard in found.items() if all(start < stop for start, stop in place)]


def write(store: Store, step: int, shards: dict[str, Any], host: bytes, marker: dict[str, Any], keep: int | None) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter
    from torch_xla.experimental.distributed_checkpoint import SPMDSavePlanner

    def begin() -> tuple[Saved, str]:
        draft = store.begin(step)
        return draft.saved, draft.folder

    draft = Draft(store, *first_only(begin))
    with quiet():
        dcp.save(shards, storage_writer=FsspecWriter(draft.url), planner=SPMDSavePlanner(), no_dist=not is_distributed())

    def finish() -> None:
        draft.write(HOST, host)
        draft.finish(marker)
        store.keep_newest(keep)

    first_only(finish)


def load(model: nn.Module, optimizer: torch.optim.Optimizer | None, url: str | os.PathLike[str], *, step: int | None = None) -> Resumed:
    """Read the newest complete checkpoint below `url`, or that of `step`, into a model and its optimizer.

    Call it after `wrap`, on this mesh or another; the optimizer may be new. Random states are set as they were.
    """
    import torch.distributed.checkpoint as dcp
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader
    from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner

    finish_pending()
    store = Store(url)
    saved = store.chosen(step)
    where = store.full(saved.name)
    marker = store.read_marker(saved)
    targets = contents.model_tensors(model)
    described = marker["tensors"]
    check_model(where, contents.described(targets), described)
    if optimizer is not None:
        contents.parameter_names(model, optimizer)
        if not marker["has_optimizer"]:
            raise UserError(f"{where}: saved without an optimizer; load it with optimizer=None")
        state = {name: about for name, about in described.items() if name.startswith(contents.OPTIMIZER)}
        targets |= contents.empty_tensors(state, specs_of(model), mesh_of(model))
    torch_xla.sync()
    xm.wait_device_ops()
    with quiet():
        dcp.load(targets, storage_reader=FsspecReader(where), planner=SPMDLoadPlanner(), no_dist=not is_distributed())
    with store.files.open(store.path(saved.name, HOST), "rb") as stream:
        values = torch.load(stream, weights_only=True)
    if optimizer is not None:
        restore_optimizer(where, model, optimizer, targets, values["optimizer"])
    contents.set_random_states(values["random"])
    torch_xla.sync()
    return Resumed(marker["step"], values["extra"])


def latest_step(url: str | os.PathLike[str]) -> int | None:
    """Of the newest complete checkpoint below `url`; None where there is none."""
    finish_pending()
    complete = Store(url).complete()
    return complete[-1].step if complete else None


def check_model(where: str, wanted: Mapping[str, Mapping[str, Any]], described: Mapping[str, Mapping[str, Any]]) -> None:
    """One line that names what a checkpoint of another model has otherwise."""
    there = {name: about for name, about in described.items() if name.startswith(contents.MODEL)}
    problems = [
        *(f"it has no {short(name)}" for name in wanted if name not in there),
        *(f"the model has no {short(name)}" for name in there if name not in wanted),
        *(f"{short(name)} is {size(there[name])} in it and {size(about)} in the model" for name, about in wanted.items() if name in there and size(there[name]) != size(about)),
    ]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise UserError(f"{where}: a checkpoint of another model: {'; '.join(problems[:SHOWN])}{more}")


def short(name: str) -> str:
    return name.removeprefix(contents.MODEL)


def size(about: Mapping[str, Any]) -> str:
    return f"{about['dtype']} {about['shape']}"


def restore_optimizer(where: str, model: nn.Module, optimizer: torch.optim.Optimizer, targets: Mapping[str, torch.Tensor], values: Mapping[str, Any]) -> None:
    names = contents.parameter_names(model, optimizer)
    parameters = {name: parameter for name, parameter in model.named_parameters()}
    groups = {tuple(group["params"]): group for group in values["groups"]}
    for index, group in enumerate(optimizer.param_groups):
        own = tuple(names[id(parameter)] for parameter in group["params"])
        if own not in groups:
            raise UserError(f"{where}: the optimizer's group {index} ({len(own)} parameters, the first {own[0] if own else 'none'}) is not among the {len(groups)} groups that were saved")
        group.update({key: value for key, value in groups[own].items() if key != "params"})
    optimizer.state.clear()
    for name, value in targets.items():
        if name.startswith(contents.OPTIMIZER):
            parameter, _, key = name.removeprefix(contents.OPTIMIZER).rpartition(".")
            optimizer.state[parameters[parameter]][key] = value
    for name, state in values["state"].items():
        optimizer.state[parameters[name]].update(state)


def mesh_of(model: nn.Module) -> Mesh:
    found = wrapped(model)
    return found.mesh if found is not None else Mesh()


def specs_of(model: nn.Module) -> dict[str, tuple[tuple[int, ...], Any]]:
    found = wrapped(model)
    return {name: (layout.shape, layout.spec) for name, layout in found.layouts.items()} if found is not None else {}


def is_distributed() -> bool:
    """Several hosts, with a gloo group: `dist.init_process_group("gloo", init_method="xla://")`."""
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized()


def first_only(work: Callable[[], Any]) -> Any:
    """Run by the first process of the job; its result, in all of them, when it is done.

    What it raises is raised in all of them: the others would wait for a result that never comes.
    """
    import torch.distributed as dist

    if not is_distributed():
        return work()
    box: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            box[0] = work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others must hear of it
            dist.broadcast_object_list([None, told(error)], src=0)
            raise
    dist.broadcast_object_list(box, src=0)
    if box[1] is not None:
        raise UserError(box[1])
    return box[0]


def told(error: Exception) -> str:
    """In one line, for processes that did not see it happen."""
    return str(error) if isinstance(error, UserError) else f"save: the first process failed: {' '.join(f'{type(error).__name__}: {error}'.split())}"


@contextmanager
def quiet():
    """torch says at every call that there is no process group, and that typed storages will go."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.distributed")
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield
