"""What each row of the maps becomes under TorchTPU: CUDA's idioms and torch_xla's calls, before and after, and what is left to a person."""

from __future__ import annotations

import ast

import pytest
from support import change

HEAD = "import torch\n"
XLA = "import torch\nimport torch_xla\nimport torch_xla.core.xla_model as xm\nimport torch_xla.runtime as xr\n"

# Name -> before, after (empty: nothing changes), and the rules that name what is left.
FROM_CUDA = {
    "device": (
        '''
device = torch.device("cuda:1")
x = torch.ones(2, device=device)
''',
        '''
import torch
device = torch.device("tpu")
x = torch.ones(2, device=device)
''',
        [],
    ),
    "move": (
        '''
model = torch.nn.Linear(2, 2).cuda()
x = torch.ones(2).cuda()
''',
        '''
import torch
model = torch.nn.Linear(2, 2).to("tpu")
x = torch.ones(2).to("tpu")
''',
        [],
    ),
    "available": (
        '''
def train(model):
    if torch.cuda.is_available():
        print("accelerator")
    return model.cuda()
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model):
    if torch.accelerator.is_available():
        print("accelerator")
    return model.to("tpu")
''',
        [],
    ),
    "count": (
        '''
def shard(model):
    model.cuda()
    return torch.cuda.device_count()
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def shard(model):
    model.to("tpu")
    return torch.accelerator.device_count()
''',
        [],
    ),
    "set_device": (
        '''
def worker(rank, model):
    torch.cuda.set_device(rank)
    model.to(rank)
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def worker(rank, model):
    model.to(torch.device("tpu"))
''',
        [],
    ),
    "autocast": (
        '''
def step(model, x):
    with torch.cuda.amp.autocast():
        return model(x.cuda())
''',
        '''
import torch
def step(model, x):
    with torch.autocast("tpu", dtype=torch.bfloat16):
        return model(x.to("tpu"))
''',
        [],
    ),
    "autocast2": (
        '''
def step(model, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(x.cuda())
''',
        '''
import torch
def step(model, x):
    with torch.autocast("tpu", dtype=torch.bfloat16):
        return model(x.to("tpu"))
''',
        [],
    ),
    "scaler": (
        '''
def train(model, optimizer, x):
    scaler = torch.cuda.amp.GradScaler()
    loss = model(x.cuda()).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
''',
        '''
import torch
def train(model, optimizer, x):
    scaler = torch.amp.GradScaler("tpu", enabled=False)
    loss = model(x.to("tpu")).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
''',
        [],
    ),
    "step": (
        '''
def train(model, optimizer, loader):
    model.cuda()
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, optimizer, loader):
    model.to("tpu")
    for x in loader:
        optimizer.zero_grad()
        model(x.to("tpu")).sum().backward()
        optimizer.step()
''',
        [],
    ),
    "synchronize": (
        '''
def timed(model, x):
    model(x.cuda())
    torch.cuda.synchronize()
''',
        '''
import torch
def timed(model, x):
    model(x.to("tpu"))
    torch.accelerator.synchronize()
''',
        [],
    ),
    "memory": (
        '''
def report(model):
    model.cuda()
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def report(model):
    model.to("tpu")
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
''',
        ['XP123'],
    ),
    "cache": (
        '''
def free(model):
    model.cuda()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def free(model):
    model.to("tpu")
''',
        [],
    ),
    "seed": (
        '''
def seed(n, model):
    model.cuda()
    torch.manual_seed(n)
    torch.cuda.manual_seed_all(n)
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def seed(n, model):
    model.to("tpu")
    torch.manual_seed(n)
''',
        [],
    ),
    "seed2": (
        '''
def seed(n, model):
    model.cuda()
    torch.cuda.manual_seed(n)
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def seed(n, model):
    model.to("tpu")
    torch.manual_seed(n)
''',
        [],
    ),
    "rng": (
        '''
def restore(state, model):
    model.cuda()
    torch.cuda.set_rng_state(state)
    return torch.cuda.get_rng_state()
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def restore(state, model):
    model.to("tpu")
    torch.tpu.set_rng_state(state)
    return torch.cuda.get_rng_state()
''',
        ['XP127'],
    ),
    "pin": (
        '''
from torch.utils.data import DataLoader

def train(model, data):
    model.cuda()
    for x in DataLoader(data, pin_memory=True):
        model(x.cuda(non_blocking=True))
''',
        '''
import torch
from torch.utils.data import DataLoader

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, data):
    model.to("tpu")
    for x in DataLoader(data):
        model(x.to("tpu", non_blocking=True))
''',
        [],
    ),
    "workers": (
        '''
from torch.utils.data import DataLoader

def train(model, data):
    model.cuda()
    for x in DataLoader(data, num_workers=4):
        model(x.cuda())
''',
        '''
import torch
from torch.utils.data import DataLoader

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, data):
    model.to("tpu")
    for x in DataLoader(data, num_workers=4):
        model(x.to("tpu"))
''',
        ['XP821'],
    ),
    "compile": (
        '''
def train(model, x):
    fast = torch.compile(model.cuda(), backend="inductor", dynamic=True, mode="max-autotune")
    return fast(x.cuda())
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, x):
    fast = torch.compile(model.to("tpu"))
    return fast(x.to("tpu"))
''',
        [],
    ),
    "group": (
        '''
import torch.distributed as dist

def worker(rank, world, model):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model.cuda(rank)
''',
        '''
import torch
import torch.distributed as dist

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def worker(rank, world, model):
    dist.init_process_group("tpu_dist", rank=rank, world_size=world)
    model.to("tpu")
''',
        [],
    ),
    "ddp": (
        '''
from torch.nn.parallel import DistributedDataParallel as DDP

def wrap(rank, model):
    return DDP(model.cuda(rank), device_ids=[rank], output_device=rank)
''',
        '''
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def wrap(rank, model):
    return DDP(model.to("tpu"))
''',
        [],
    ),
    "fsdp1": (
        '''
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

def wrap(model):
    return FSDP(model.cuda(), device_id=torch.cuda.current_device())
''',
        '''
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def wrap(model):
    return FSDP(model.to("tpu"), device_id=torch.accelerator.current_device_index())
''',
        ['XP720'],
    ),
    "fsdp2": (
        '''
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

def wrap(model, world):
    fully_shard(model, mesh=init_device_mesh("cuda", (world,)))
''',
        '''
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

def wrap(model, world):
    fully_shard(model, mesh=init_device_mesh("tpu", (world,)))
''',
        [],
    ),
    "spawn": (
        '''
import torch.multiprocessing as mp

def worker(rank, model):
    model.cuda(rank)

if __name__ == "__main__":
    mp.spawn(worker, nprocs=4, args=(torch.nn.Linear(2, 2),))
''',
        '''
import torch
import torch.multiprocessing as mp

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def worker(rank, model):
    model.to("tpu")

if __name__ == "__main__":
    torch.tpu.distributed.set_tpu_launch_env(nproc_per_node=4)
    mp.spawn(worker, nprocs=4, args=(torch.nn.Linear(2, 2),))
''',
        ['XP705'],
    ),
    "save": (
        '''
def save(model, path):
    model.cuda()
    torch.save(model.state_dict(), path)
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def on_host(value):
    """The value with its tensors on the host, in whatever lists and dictionaries: a file that can be read without a TPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_host(part) for key, part in value.items()}
    return type(value)(map(on_host, value)) if type(value) in (list, tuple) else value

def save(model, path):
    model.to("tpu")
    torch.save(on_host(model.state_dict()), path)
''',
        [],
    ),
    "load": (
        '''
def load(model, path):
    model.cuda().load_state_dict(torch.load(path, map_location="cuda"))
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def load(model, path):
    model.to("tpu").load_state_dict(torch.load(path, map_location="cpu"))
''',
        [],
    ),
    "cudnn": (
        '''
def setup(model):
    model.cuda()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def setup(model):
    model.to("tpu")
    torch.set_float32_matmul_precision("high")
''',
        [],
    ),
    "precision": (
        '''
def setup(model):
    model.cuda()
    torch.backends.cuda.matmul.allow_tf32 = False
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def setup(model):
    model.to("tpu")
    torch.set_float32_matmul_precision("highest")
''',
        [],
    ),
    "profiler": (
        '''
from torch.profiler import ProfilerActivity, profile

def look(model, x):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        model(x.cuda())
    print(seen.key_averages().table(sort_by="cuda_time_total"))
''',
        '''
import torch
from torch.profiler import ProfilerActivity, profile

def look(model, x):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as seen:
        model(x.to("tpu"))
    print(seen.key_averages().table(sort_by="device_time_total"))
''',
        [],
    ),
    "event": (
        '''
def timed(model, x):
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    model(x.cuda())
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
''',
        '''
import torch
import time
def timed(model, x):
    torch.accelerator.synchronize()
    start = time.perf_counter()
    model(x.to("tpu"))
    torch.accelerator.synchronize()
    end = time.perf_counter()
    return (end - start) * 1000
''',
        [],
    ),
    "stream": (
        '''
def run(model, x):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = model(x.cuda())
    torch.cuda.current_stream().wait_stream(stream)
    y.record_stream(torch.cuda.current_stream())
    return y
''',
        '''
import torch
def run(model, x):
    y = model(x.to("tpu"))
    return y
''',
        [],
    ),
    "nvtx": (
        '''
def run(model, x):
    torch.cuda.nvtx.range_push("forward")
    model(x.cuda())
    torch.cuda.nvtx.range_pop()
''',
        '''
import torch
def run(model, x):
    model(x.to("tpu"))
''',
        [],
    ),
    "graph": (
        '''
def capture(model, x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return model(x.cuda())
''',
        '''
import torch
def capture(model, x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return model(x.to("tpu"))
''',
        ['XP131'],
    ),
    "item": (
        '''
def train(model, optimizer, loader):
    model.cuda()
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, optimizer, loader):
    model.to("tpu")
    for x in loader:
        loss = model(x.to("tpu")).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
''',
        [],
    ),
    "triton": (
        '''
import triton
import triton.language as tl

@triton.jit
def kernel(x, n: tl.constexpr):
    tl.store(x, n)
''',
        '''
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, n: tl.constexpr):
    tl.store(x, n)
''',
        ['XP915'],
    ),
    "workers_given": (
        '''
from torch.utils.data import DataLoader

def train(model, data, n):
    model.cuda()
    for x in DataLoader(data, num_workers=n):
        model(x.cuda())
''',
        '''
import torch
from torch.utils.data import DataLoader

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def train(model, data, n):
    model.to("tpu")
    for x in DataLoader(data, num_workers=n):
        model(x.to("tpu"))
''',
        ['XP821'],
    ),
}

FROM_TORCH_XLA = {
    "imports": (
        '''
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.distributed.parallel_loader as pl
import torch_xla.debug.metrics as met
print(torch.ones(2))
''',
        '''
import torch
print(torch.ones(2))
''',
        [],
    ),
    "device": (
        '''
def f(model):
    model.to(xm.xla_device())
    model.to(torch_xla.device())
    return torch.ones(2, device="xla"), torch.device("xla:0"), model.to("xla")
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def f(model):
    model.to(torch.device("tpu"))
    model.to(torch.device("tpu"))
    return torch.ones(2, device="tpu"), torch.device("tpu"), model.to("tpu")
''',
        [],
    ),
    "numbered": (
        '''
def f(model, rank):
    device = torch.device(f"xla:{rank}")
    print(f"xla:{rank}", f"xla:{rank} is ready")
    return model.to(f'xla:{rank}'), torch.ones(2, device=device)
''',
        '''
import torch

# Moving a module to TPU makes new parameters; swapping them in place keeps optimizers and tied weights attached.
torch.__future__.set_swap_module_params_on_conversion(True)

def f(model, rank):
    device = torch.device("tpu")
    print(f"xla:{rank}", f"xla:{rank} is ready")
    return model.to('tpu'), torch.ones(2, device=device)
''',
        [],
    ),
    "boundary": (
        '''
def f(model, loader, optimizer):
    for x in loader:
        with torch_xla.step():
            model(x.to(xm.xla_device())).sum().backward()
            optimizer.step()
        xm.mark_step()
        torch_xla.sync()
    torch_xla.sync(wait=True)
    xm.wait_device_ops()
''',
        '''
import torch
def f(model, loader, optimizer):
    for x in loader:
        model(x.to(torch.device("tpu"))).sum().backward()
        optimizer.step()
    torch.accelerator.synchronize()
    torch.accelerator.synchronize()
''',
        [],
    ),
    "optimizer_step": (
        '''
def f(model, optimizer, x):
    model(x.to(xm.xla_device())).sum().backward()
    xm.optimizer_step(optimizer)
''',
        '''
import torch
def f(model, optimizer, x):
    model(x.to(torch.device("tpu"))).sum().backward()
    optimizer.step()
''',
        [],
    ),
    "optimizer_step_mp": (
        '''
def f(index, model, optimizer, x):
    model(x.to(xm.xla_device())).sum().backward()
    xm.reduce_gradients(optimizer)
    xm.optimizer_step(optimizer)

torch_xla.launch(f, args=(1, 2, 3))
''',
        '''
import torch
import torch_xla.core.xla_model as xm

import torch.multiprocessing

def f(index, model, optimizer, x):
    model(x.to(torch.device("tpu"))).sum().backward()
    xm.reduce_gradients(optimizer)
    xm.optimizer_step(optimizer)

torch.tpu.distributed.set_tpu_launch_env()
torch.multiprocessing.spawn(f, args=(1, 2, 3), nprocs=torch.accelerator.device_count())
''',
        ['XP170', 'XP171', 'XP705'],
    ),
    "loader": (
        '''
import torch_xla.distributed.parallel_loader as pl

def f(model, loader, device):
    for x, y in pl.MpDeviceLoader(loader, device):
        model(x, y)
''',
        '''
import torch

def f(model, loader, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        model(x, y)
''',
        [],
    ),
    "parallel_loader": (
        '''
import torch_xla.distributed.parallel_loader as pl

def f(model, loader, device):
    for x, y in pl.ParallelLoader(loader, [device]).per_device_loader(device):
        model(x, y)
''',
        '''
import torch
import torch_xla.distributed.parallel_loader as pl

def f(model, loader, device):
    for x, y in pl.ParallelLoader(loader, [device]).per_device_loader(device):
        model(x, y)
''',
        ['XP171'],
    ),
    "spawn": (
        '''
import torch_xla.distributed.xla_multiprocessing as xmp

def f(index, n):
    print(index, n)

if __name__ == "__main__":
    xmp.spawn(f, args=(3,))
''',
        '''
import torch

import torch.multiprocessing

def f(index, n):
    print(index, n)

if __name__ == "__main__":
    torch.tpu.distributed.set_tpu_launch_env()
    torch.multiprocessing.spawn(f, args=(3,), nprocs=torch.accelerator.device_count())
''',
        ['XP705'],
    ),
    "launch": (
        '''
def f(index, n):
    print(index, n)

if __name__ == "__main__":
    torch_xla.launch(f, args=(3,))
''',
        '''
import torch

import torch.multiprocessing

def f(index, n):
    print(index, n)

if __name__ == "__main__":
    torch.tpu.distributed.set_tpu_launch_env()
    torch.multiprocessing.spawn(f, args=(3,), nprocs=torch.accelerator.device_count())
''',
        ['XP705'],
    ),
    "group": (
        '''
import torch.distributed as dist
import torch_xla.distributed.xla_backend

def f():
    dist.init_process_group("xla", init_method="xla://")
    dist.init_process_group(backend="xla", init_method="xla://")
''',
        '''
import torch
import torch.distributed as dist

def f():
    dist.init_process_group("tpu_dist")
    dist.init_process_group(backend="tpu_dist")
''',
        [],
    ),
    "ranks": (
        '''
import torch.distributed as dist

def f():
    dist.init_process_group("xla", init_method="xla://")
    return xr.world_size(), xr.global_ordinal(), xr.local_ordinal(), xm.get_ordinal(), xm.xrt_world_size()
''',
        '''
import torch
import torch.distributed as dist
import os

def f():
    dist.init_process_group("tpu_dist")
    return torch.distributed.get_world_size(), torch.distributed.get_rank(), int(os.environ["LOCAL_RANK"]), torch.distributed.get_rank(), torch.distributed.get_world_size()
''',
        [],
    ),
    "ranks1": (
        '''
def f():
    return xr.world_size(), xr.global_ordinal(), xr.local_ordinal()
''',
        '''
import torch
def f():
    return 1, 0, 0
''',
        [],
    ),
    "master": (
        '''
import torch.distributed as dist

def f(x):
    dist.init_process_group("xla", init_method="xla://")
    if xm.is_master_ordinal():
        print(x)
    xm.master_print(x)
    xm.rendezvous("end")
''',
        '''
import torch
import torch.distributed as dist

def f(x):
    dist.init_process_group("tpu_dist")
    if torch.distributed.get_rank() == 0:
        print(x)
    if torch.distributed.get_rank() == 0:
        print(x)
    torch.distributed.barrier()
''',
        [],
    ),
    "collectives": (
        '''
def f(x, w):
    y = xm.all_reduce(xm.REDUCE_SUM, x)
    z = xm.all_gather(x)
    v = xm.mesh_reduce("loss", x, sum)
    return y, z, v, xm.reduce_scatter(xm.REDUCE_SUM, x, 1.0, 0, w)
''',
        '''
import torch
import torch_xla.core.xla_model as xm
def f(x, w):
    y = xm.all_reduce(xm.REDUCE_SUM, x)
    z = xm.all_gather(x)
    v = xm.mesh_reduce("loss", x, sum)
    return y, z, v, xm.reduce_scatter(xm.REDUCE_SUM, x, 1.0, 0, w)
''',
        ['XP171'],
    ),
    "save": (
        '''
def f(model, optimizer, path):
    xm.save(model.state_dict(), path)
    xm.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
''',
        '''
import torch


def on_host(value):
    """The value with its tensors on the host, in whatever lists and dictionaries: a file that can be read without a TPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_host(part) for key, part in value.items()}
    return type(value)(map(on_host, value)) if type(value) in (list, tuple) else value

def f(model, optimizer, path):
    torch.save(on_host(model.state_dict()), path)
    torch.save(on_host({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}), path)
''',
        [],
    ),
    "names_in_strings": (
        '''
import torch.distributed as dist
import torch_xla.distributed.parallel_loader as pl

def f(model, loader, rank, device):
    dist.init_process_group("xla", init_method="xla://")
    for x, y in pl.MpDeviceLoader(loader, f"{device}"):
        model(x, y)
    xm.save(model.state_dict(), f"{device}_{rank}.pt")
    xm.master_print(f"rank {rank} on {device}", xm.get_ordinal())
''',
        '''
import torch
import torch.distributed as dist


def on_host(value):
    """The value with its tensors on the host, in whatever lists and dictionaries: a file that can be read without a TPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_host(part) for key, part in value.items()}
    return type(value)(map(on_host, value)) if type(value) in (list, tuple) else value

def f(model, loader, rank, device):
    dist.init_process_group("tpu_dist")
    for x, y in loader:
        x, y = x.to(f"{device}"), y.to(f"{device}")
        model(x, y)
    if torch.distributed.get_rank() == 0:
        torch.save(on_host(model.state_dict()), f"{device}_{rank}.pt")
    if torch.distributed.get_rank() == 0:
        print(f"rank {rank} on {device}", torch.distributed.get_rank())
''',
        [],
    ),
    "seed": (
        '''
def f(n):
    xm.set_rng_state(n)
''',
        '''
import torch
def f(n):
    torch.manual_seed(n)
''',
        [],
    ),
    "seed2": (
        '''
def f(n):
    torch_xla.manual_seed(n)
    return xm.get_rng_state()
''',
        '''
import torch
import torch_xla.core.xla_model as xm
def f(n):
    torch.manual_seed(n)
    return xm.get_rng_state()
''',
        ['XP171'],
    ),
    "memory": (
        '''
def f():
    return xm.get_memory_info(xm.xla_device())
''',
        '''
import torch
import torch_xla.core.xla_model as xm
def f():
    return xm.get_memory_info(torch.device("tpu"))
''',
        ['XP171'],
    ),
    "spmd": (
        '''
import torch_xla.distributed.spmd as xs
import numpy as np

def f(x):
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (4,), ("data",))
    xs.mark_sharding(x, mesh, ("data",))
''',
        '''
import torch
import torch_xla.runtime as xr
import torch_xla.distributed.spmd as xs
import numpy as np

def f(x):
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (4,), ("data",))
    xs.mark_sharding(x, mesh, ("data",))
''',
        ['XP171'],
    ),
    "fsdp": (
        '''
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP

def f(model):
    return FSDP(model)
''',
        '''
import torch
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP

def f(model):
    return FSDP(model)
''',
        ['XP171'],
    ),
    "amp": (
        '''
from torch_xla.amp import autocast, GradScaler, syncfree

def f(model, x):
    optimizer = syncfree.AdamW(model.parameters())
    scaler = GradScaler()
    with autocast(xm.xla_device()):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
''',
        '''
import torch

def f(model, x):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("tpu", enabled=False)
    with torch.autocast("tpu", dtype=torch.bfloat16):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
''',
        [],
    ),
    "compile": (
        '''
def f(model, step):
    step = torch_xla.compile(step)
    return torch.compile(model, backend="openxla"), step
''',
        '''
import torch
def f(model, step):
    step = torch.compile(step)
    return torch.compile(model), step
''',
        [],
    ),
    "eager": (
        '''
from torch_xla import experimental
torch_xla.experimental.eager_mode(True)
experimental.eager_mode(True)
''',
        '''
import torch
''',
        [],
    ),
    "metrics": (
        '''
import torch_xla.debug.metrics as met
print(met.metrics_report())
''',
        '''
import torch
import torch_xla.debug.metrics as met
print(met.metrics_report())
''',
        ['XP171'],
    ),
    "profiler": (
        '''
import torch_xla.debug.profiler as xp

def f(model, x):
    server = xp.start_server(9012)
    with xp.Trace("forward"):
        return model(x)
''',
        '''
import torch
import torch_xla.debug.profiler as xp

def f(model, x):
    server = xp.start_server(9012)
    with torch.profiler.record_function("forward"):
        return model(x)
''',
        ['XP171'],
    ),
    "precision": (
        '''
torch_xla.backends.set_mat_mul_precision("highest")
''',
        '''
import torch
torch.set_float32_matmul_precision("highest")
''',
        [],
    ),
    "env": (
        '''
import os
os.environ["XLA_USE_BF16"] = "1"
os.environ.setdefault("PJRT_DEVICE", "TPU")
os.environ["XLA_DOWNCAST_BF16"] = "1"
''',
        '''
import torch
import os
''',
        [],
    ),
    "kernel": (
        '''
from torch_xla.experimental.custom_kernel import flash_attention

def f(q, k, v):
    return flash_attention(q, k, v)
''',
        '''
import torch
from torch_xla.experimental.custom_kernel import flash_attention

def f(q, k, v):
    return flash_attention(q, k, v)
''',
        ['XP171'],
    ),
}


def check(head: str, before: str, after: str, left: list[str], **settings) -> None:
    done = change(head + before.lstrip("\n"), target="torchtpu", **settings)
    assert done.after.text == after.lstrip("\n")
    ast.parse(done.after.text)
    assert sorted({finding.code for finding in done.remaining if finding.code != "XP520" and (finding.is_idiom or finding.code == "XP821")}) == left
    again = change(done.after.text, target="torchtpu", **settings)
    assert again.after.text == done.after.text


@pytest.mark.parametrize("name", FROM_CUDA)
def test_from_cuda(name):
    check(HEAD, *FROM_CUDA[name])


@pytest.mark.parametrize("name", FROM_TORCH_XLA)
def test_from_torch_xla(name):
    check(XLA, *FROM_TORCH_XLA[name], source="torch_xla")
