"""Process groups: NCCL's become gloo's on the host and XLA's on XLA; a program alone is a world of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

from xlaport.runtime.carry.carrier import CannotCarry, Carrier
from xlaport.runtime.inside import imports
from xlaport.runtime.launcher import free_port

CUDA_ONLY = ("device_id", "pg_options")
"""Arguments of process groups that only NCCL's take."""


def install(carrier: Carrier) -> None:
    if not dist.is_available():
        return
    carry_groups(carrier)
    carry_collectives(carrier)
    carry_meshes(carrier)
    carry_sharding(carrier)
    carry_wrapper(carrier)
    carry_spawn(carrier)


def backend_of(carrier: Carrier) -> str:
    return "gloo" if carrier.kind == "cpu" else "xla"


def carry_groups(carrier: Carrier) -> None:
    begin, group = dist.init_process_group, dist.new_group

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, **keywords):
        carrier.note("process group")
        for name in CUDA_ONLY:
            keywords.pop(name, None)
        if timeout is not None:
            keywords["timeout"] = timeout
        if carrier.kind == "xla":
            import torch_xla.distributed.xla_backend  # noqa: F401  registers the backend

            return begin("xla", init_method="xla://", **keywords)
        if store is not None:
            return begin("gloo", store=store, world_size=world_size, rank=rank, **keywords)
        if (init_method is None or init_method.startswith("env://")) and not alone_is_set(world_size, rank):
            world_size, rank = 1, 0
            init_method = f"tcp://127.0.0.1:{free_port()}"
        return begin("gloo", init_method=init_method, world_size=world_size, rank=rank, **keywords)

    def new_group(ranks=None, timeout=None, backend=None, **keywords):
        for name in CUDA_ONLY:
            keywords.pop(name, None)
        return group(ranks, timeout, backend="gloo" if backend == "gloo" else backend_of(carrier), **keywords)

    replace("init_process_group", init_process_group)
    replace("new_group", new_group)
    dist.is_nccl_available = dist.distributed_c10d.is_nccl_available = lambda: True


def alone_is_set(world_size: int, rank: int) -> bool:
    """Whether something says who is in the group: the environment of a launcher, or the arguments."""
    return world_size > 0 and rank >= 0 or "RANK" in os.environ and "WORLD_SIZE" in os.environ


def replace(name: str, value) -> None:
    """Set a function of torch.distributed, also where other modules of torch have imported it."""
    original = getattr(dist, name)
    for module in [module for key, module in sys.modules.items() if key.startswith("torch.")]:
        if vars(module).get(name) is original:
            setattr(module, name, value)


def carry_collectives(carrier: Carrier) -> None:
    """Averages are sums divided, as neither gloo nor XLA's group has them; `device_ids` of a barrier are CUDA's."""
    reduce, scatter, barrier = dist.all_reduce, dist.reduce_scatter_tensor, dist.barrier

    def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        return reduced(tensor, op, group, lambda op: reduce(tensor, op, group, async_op))

    def reduce_scatter_tensor(output, input, op=dist.ReduceOp.SUM, group=None, async_op=False):
        return reduced(output, op, group, lambda op: scatter(output, input, op, group, async_op))

    def reduced(result, op, group, collective: Callable):
        if op != dist.ReduceOp.AVG:
            return collective(op)
        carrier.note("ReduceOp.AVG")
        work = collective(dist.ReduceOp.SUM)
        if work is not None:
            work.wait()
        result.div_(dist.get_world_size(group))
        return work

    def wait(group=None, async_op=False, device_ids=None):
        return barrier(group, async_op)

    replace("all_reduce", all_reduce)
    replace("reduce_scatter_tensor", reduce_scatter_tensor)
    replace("barrier", wait)
    if carrier.kind == "xla":
        carry_objects(carrier)


def carry_objects(carrier: Carrier) -> None:
    """XLA's group takes no host tensors, which objects are sent as. One process of XLA is a world of one: they stay."""

    def alone() -> None:
        carrier.note("object collectives")
        if dist.get_world_size() > 1:
            raise CannotCarry("objects are not sent between processes of XLA: run it with --device cpu")

    def gathered(object_list, obj, group=None):
        alone()
        object_list[:] = [obj]

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
        alone()
        if object_gather_list is not None:
            object_gather_list[:] = [obj]

    def broadcast(object_list, src=None, group=None, device=None, group_src=None):
        alone()

    def scattered(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
        alone()
        scatter_object_output_list[0] = scatter_object_input_list[0]

    names = {"all_gather_object": gathered, "gather_object": gather_object, "broadcast_object_list": broadcast, "scatter_object_list": scattered}
    for name, value in names.items():
        replace(name, value)


def carry_meshes(carrier: Carrier) -> None:
    mesh = dist.device_mesh.DeviceMesh
    made = mesh.__init__

    def init(self, device_type, *arguments, **keywords):
        made(self, carrier.type_for(device_type), *arguments, **keywords)

    mesh.__init__ = init


def carry_sharding(carrier: Carrier) -> None:
    """Both FSDPs shard over processes of gloo; XLA's shards are another program."""
    imports.after("torch.distributed.fsdp", lambda: (carry_fsdp if carrier.kind == "cpu" else refuse_fsdp)(carrier))


def carry_fsdp(carrier: Carrier) -> None:
    module = sys.modules["torch.distributed.fsdp"]
    made = module.FullyShardedDataParallel.__init__

    def init(self, *arguments, device_id=None, **keywords):
        carrier.note("FullyShardedDataParallel")
        made(self, *arguments, device_id=carrier.device, **keywords)

    module.FullyShardedDataParallel.__init__ = init
    for config in (module.FullStateDictConfig, module.ShardedStateDictConfig):
        config.__init__ = without_offload(config.__init__)


def without_offload(made: Callable) -> Callable:
    """States are on the host already; torch 2.9 frees what it has "moved" there, and the process dies."""

    def init(self, *arguments, **keywords):
        made(self, *arguments, **keywords)
        self.offload_to_cpu = False

    return init


def refuse_fsdp(carrier: Carrier) -> None:
    def refuse(*arguments, **keywords):
        raise CannotCarry("FSDP has no process groups on XLA: run it with --device cpu, or migrate it (xlaport migrate turns it into SPMD)")

    module = sys.modules["torch.distributed.fsdp"]
    module.FullyShardedDataParallel.__init__ = module.fully_shard = refuse


def carry_wrapper(carrier: Carrier) -> None:
    made = torch.nn.parallel.DistributedDataParallel.__init__

    def init(self, module, device_ids=None, output_device=None, *arguments, **keywords):
        carrier.note("DistributedDataParallel")
        made(self, module, None, None, *arguments, **keywords)

    torch.nn.parallel.DistributedDataParallel.__init__ = init


def carry_spawn(carrier: Carrier) -> None:
    """One worker needs no process: it runs where it is asked for."""
    import torch.multiprocessing as mp

    spawn = mp.spawn

    def carried(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
        carrier.note("mp.spawn")
        if nprocs == 1 and join:
            return fn(0, *args)
        return spawn(fn, args, nprocs, join, daemon, start_method)

    mp.spawn = torch.multiprocessing.spawn = carried
