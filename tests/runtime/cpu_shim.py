"""CUDA calls become CPU ones, for programs that do not ask whether CUDA is there.

A mode of torch's function dispatch rewrites device arguments of every torch function and method; names of
`torch.cuda` that the mode does not see are replaced. One GPU is pretended: number 0.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

KINDS = ("Float", "Double", "Half", "Long", "Int", "Bool")
TYPE_NAMES = {f"torch.cuda.{kind}Tensor": f"torch.{kind}Tensor" for kind in KINDS}


class CpuEvent:
    """Stands in for torch.cuda.Event: the host's clock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.at = 0.0

    def record(self, *args: Any) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: CpuEvent) -> float:
        return (later.at - self.at) * 1000


class CudaOnCpu(TorchFunctionMode):
    """`.cuda()` and `.pin_memory()` give the tensor itself; a CUDA device anywhere in the arguments becomes the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], "cpu", *args[2:])
        return func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})


def on_cpu(value: Any) -> Any:
    """The CPU for a CUDA device or a tensor type of one; any other value as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str):
        return "cpu" if value.split(":")[0] == "cuda" else TYPE_NAMES.get(value, value)
    return value


def nothing(*args: Any, **kwargs: Any) -> None:
    pass


def constant(value: Any):
    return lambda *args, **kwargs: value


REPLACEMENTS = {
    "is_available": constant(True),
    "is_bf16_supported": constant(True),
    "is_current_stream_capturing": constant(False),
    "device_count": constant(1),
    "current_device": constant(0),
    "get_device_name": constant("CPU in place of a GPU"),
    "memory_allocated": constant(0),
    "max_memory_allocated": constant(0),
    "set_device": nothing,
    "synchronize": nothing,
    "empty_cache": nothing,
    "reset_peak_memory_stats": nothing,
    "manual_seed": nothing,
    "manual_seed_all": nothing,
    "Event": CpuEvent,
}


def install() -> None:
    """Replace CUDA in this process, in its main thread."""
    for name, value in REPLACEMENTS.items():
        setattr(torch.cuda, name, value)
    for kind in KINDS:
        setattr(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
    redirect_load()
    redirect_distributed()
    CudaOnCpu().__enter__()


def redirect_load() -> None:
    load = torch.load

    def load_on_cpu(*args, map_location=None, **kwargs):
        return load(*args, map_location=on_cpu(map_location), **kwargs)

    torch.load = load_on_cpu


def redirect_distributed() -> None:
    """gloo for nccl; wrappers without device numbers, meshes of the CPU, sums in place of averages (gloo has none)."""
    import torch.distributed as dist
    import torch.distributed.device_mesh as device_mesh
    import torch.distributed.fsdp as fsdp
    from torch.nn.parallel import DistributedDataParallel

    start, wrap, shard = dist.init_process_group, DistributedDataParallel.__init__, fsdp.FullyShardedDataParallel.__init__
    make_mesh, reduce = device_mesh.init_device_mesh, dist.all_reduce

    def start_gloo(backend=None, *args, device_id=None, **kwargs):
        return start("gloo", *args, **kwargs)

    def wrap_on_cpu(self, module, device_ids=None, output_device=None, *args, **kwargs):
        wrap(self, module, *args, **kwargs)

    def shard_on_cpu(self, module, *args, device_id=None, **kwargs):
        shard(self, module, *args, device_id=torch.device("cpu"), **kwargs)

    def make_mesh_of_cpus(device_type, *args, **kwargs):
        torch.cuda.is_available = constant(False)  # with CUDA there, a mesh over gloo makes a group of nccl as well
        try:
            return make_mesh(on_cpu(device_type), *args, **kwargs)
        finally:
            torch.cuda.is_available = constant(True)

    def reduce_by_sum(tensor, op=dist.ReduceOp.SUM, *args, **kwargs):
        if op != dist.ReduceOp.AVG:
            return reduce(tensor, op, *args, **kwargs)
        work = reduce(tensor, dist.ReduceOp.SUM, *args, **kwargs)
        tensor.div_(dist.get_world_size())
        return work

    dist.init_process_group, DistributedDataParallel.__init__ = start_gloo, wrap_on_cpu
    fsdp.FullyShardedDataParallel.__init__ = shard_on_cpu
    device_mesh.init_device_mesh, dist.all_reduce = make_mesh_of_cpus, reduce_by_sum
