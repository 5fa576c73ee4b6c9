"""Batches divided over the chips that have different rows."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from xlaport.errors import UserError
from xlaport.runtime.fsdp.mesh import Mesh

AHEAD = 2
"""Batches on their way to the device while one is computed."""


def shard_batch(batch: Any, mesh: Mesh, *, batch_dim: int = 0) -> Any:
    """`batch` itself, its tensors on the device divided over `mesh` like those of a `shard_loader`: for batches that a program puts there."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.device.type == "xla"]
    for tensor, is_divided in zip(tensors, hold_rows(tensors, batch_dim)):
        if is_divided:
            mesh.mark(tensor, mesh.batch_spec(tensor.dim(), batch_dim))
    return batch


def hold_rows(tensors: Sequence[torch.Tensor], batch_dim: int) -> list[bool]:
    """Which tensors of a batch have a row for each of its rows: as many as the first that has the dimension at all."""
    rows = next((tensor.shape[batch_dim] for tensor in tensors if tensor.dim() > batch_dim), None)
    return [tensor.dim() > batch_dim and tensor.shape[batch_dim] == rows for tensor in tensors]


def shard_loader(loader: Iterable[Any], mesh: Mesh, *, batch_dim: int = 0, sync: bool = True) -> ShardedLoader:
    """`loader` with its batches on the device, their rows divided over `mesh`.

    The batch of the loader is the global one: that of one CUDA rank times the ranks there were. With several hosts each
    host's loader gives its own rows (`DistributedSampler(num_replicas=xr.process_count(), rank=xr.process_index())`).
    Tensors of another size than the first along `batch_dim`, and numbers, go to every chip whole. With `sync` what the
    loop has built is launched before each batch, and behind the last: a step needs no `torch_xla.sync()` of its own.

    Unlike `MpDeviceLoader` it raises what the data set raises, and has the loader's attributes (`sampler`, `dataset`).
    """
    if mesh.batch_parts > 1 and isinstance(getattr(loader, "batch_size", None), int) and loader.batch_size % mesh.batch_parts:
        raise UserError(f"shard_loader: a batch of {loader.batch_size} rows cannot be divided over {mesh.batch_parts} chips (mesh {mesh})")
    return ShardedLoader(loader, mesh, batch_dim, sync)


class ShardedLoader:
    """See `shard_loader`."""

    def __init__(self, loader: Iterable[Any], mesh: Mesh, batch_dim: int, sync: bool) -> None:
        self.loader, self.mesh, self.batch_dim, self.sync = loader, mesh, batch_dim, sync

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)  # while it is copied or unpickled
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        import torch_xla

        ready: queue.Queue = queue.Queue(maxsize=AHEAD)
        stopped = threading.Event()
        thread = threading.Thread(target=self._fill, args=(ready, stopped), daemon=True)
        thread.start()
        try:
            while True:
                if self.sync:
                    torch_xla.sync()
                kind, value = ready.get()
                if kind == "error":
                    raise value
                if kind == "end":
                    return
                yield value
        finally:
            stopped.set()
            while thread.is_alive():  # it may wait for a place
                drain(ready)
                thread.join(timeout=0.05)

    def _fill(self, ready: queue.Queue, stopped: threading.Event) -> None:
        """In a thread: batches to the device, then what ended them."""
        last: tuple[str, Any] = ("end", None)
        try:
            for batch in self.loader:
                ready.put(("batch", self.place(batch)))
                if stopped.is_set():
                    return
        except BaseException as error:
            last = ("error", error)
        ready.put(last)

    def place(self, batch: Any) -> Any:
        """The tensors of a batch on the device, in the same nest."""
        import torch_xla
        import torch_xla.core.xla_model as xm

        leaves, nest = tree_flatten(batch)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shardings = [self.sharding(tensor, is_divided) for tensor, is_divided in zip(tensors, hold_rows(tensors, self.batch_dim))]
        device = torch_xla.device()
        placed = iter([xm.send_cpu_data_to_device([tensor], device, sharding)[0] for tensor, sharding in zip(tensors, shardings)])
        return tree_unflatten([next(placed) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], nest)

    def sharding(self, tensor: torch.Tensor, is_divided: bool) -> Any:
        import torch_xla.distributed.spmd as xs
        import torch_xla.runtime as xr

        if self.mesh.size == 1:
            return None
        spec = self.mesh.batch_spec(tensor.dim(), self.batch_dim) if is_divided else (None,) * tensor.dim()
        sharding = xs.ShardingSpec(self.mesh.devices, spec, minibatch=is_divided and xr.process_count() > 1)
        # Of labels [rows] on a mesh that also has `model` its own arguments are wrong (not PARTIAL); those of mark_sharding are right.
        arguments = self.mesh.devices._get_op_sharding_args(spec)
        sharding._tile_assignment, sharding._group_assignment, sharding._replication_groups, sharding._sharding_type = arguments
        return sharding


def drain(ready: queue.Queue) -> None:
    while True:
        try:
            ready.get_nowait()
        except queue.Empty:
            return
