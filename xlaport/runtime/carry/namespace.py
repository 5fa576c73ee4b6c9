"""`torch.cuda` and `torch.accelerator`, answering for the carried device: one device, no streams, no memory to count."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from xlaport.runtime.carry.callers import is_program
from xlaport.runtime.carry.calls import LEGACY
from xlaport.runtime.carry.carrier import CannotCarry, Carrier

NOTHING = (
    "init empty_cache ipc_collect reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached"
    " reset_accumulated_memory_stats reset_accumulated_host_memory_stats reset_peak_host_memory_stats set_per_process_memory_fraction"
    " set_sync_debug_mode set_stream caching_allocator_delete caching_allocator_enable check_error"
    " _lazy_init _sleep memory._record_memory_history memory._dump_snapshot"
).split()
"""Calls that change nothing anywhere else."""

ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached"
    " memory_usage device_memory_used utilization temperature power_draw clock_rate get_sync_debug_mode"
).split()

REFUSED = {
    "CUDAGraph": "records CUDA kernels",
    "graph": "records CUDA kernels",
    "caching_allocator_alloc": "allocates CUDA memory",
    "CUDAPluggableAllocator": "allocates CUDA memory",
    "change_current_allocator": "allocates CUDA memory",
    "current_blas_handle": "is a handle of cuBLAS",
    "jiterator._create_jit_fn": "compiles CUDA code",
    "jiterator._create_multi_output_jit_fn": "compiles CUDA code",
    "_compile_kernel": "compiles CUDA code",
}
"""Names that mean nothing without CUDA -> why."""

MEMORY = 16 << 30
"""Bytes a program is told the device has."""


class Stream:
    """Work is done in the order it is asked for."""

    def __init__(self, *arguments, **keywords):
        self.device, self.device_index, self.stream_id, self.cuda_stream, self.priority = torch.device("cuda", 0), 0, 0, 0, 0

    def wait_stream(self, stream) -> None: ...

    def wait_event(self, event) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None: ...


class Event:
    """A time of the host's clock."""

    def __init__(self, *arguments, **keywords):
        self.at = time.perf_counter()

    def record(self, stream=None) -> None:
        self.at = time.perf_counter()

    def wait(self, stream=None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        return (end.at - self.at) * 1e3


class Block(contextlib.ContextDecorator):
    """`with torch.cuda.device(0):` and `with torch.cuda.stream(s):`, which choose nothing here."""

    def __init__(self, *arguments, **keywords):
        self.idx, self.prev_idx, self.id = 0, 0, (0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None: ...


class Runtime:
    """`torch.cuda.cudart()`: the profiler's switches and the memory answer; nothing else has a form here."""

    def cudaProfilerStart(self) -> int:
        return 0

    def cudaProfilerStop(self) -> int:
        return 0

    def cudaMemGetInfo(self, device: int = 0) -> tuple[int, int]:
        return MEMORY, MEMORY

    def __getattr__(self, name: str):
        return refusing(f"torch.cuda.cudart().{name}", "is CUDA's runtime")


def install(carrier: Carrier) -> None:
    cuda = torch.cuda
    for name in NOTHING:
        replace(cuda, name, noting(carrier, f"torch.cuda.{name}", None))
    for name in ZERO:
        replace(cuda, name, noting(carrier, f"torch.cuda.{name}", 0))
    for name, why in REFUSED.items():
        refused = refusing(f"torch.cuda.{name}", why)
        replace(cuda, name, refusing_class(name, refused) if isinstance(getattr(cuda, name, None), type) else refused)
    for name, answer in answers(carrier).items():
        replace(cuda, name, answer)
    for name, dtype in LEGACY.items():
        setattr(cuda, name, tensor_type(carrier, name, dtype))
    torch.Stream, torch.Event = Stream, Event
    torch.version.cuda = torch.version.cuda or "12.8"
    install_random(carrier)
    install_profiling(carrier)
    install_accelerator(carrier)
    if carrier.kind == "xla":
        torch.xla = cuda  # torch's own code looks there for the functions of a device (checkpointing, fork_rng)


def replace(module: Any, name: str, value: Any) -> None:
    """Set a name below a module, and in the submodule that defines it, where other names find it."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    setattr(module, last, value)
    for sub in ("memory", "streams", "random", "graphs"):
        inner = getattr(module, sub, None)
        if inner is not None and hasattr(inner, last):
            setattr(inner, last, value)


def noting(carrier: Carrier, what: str, value: Any):
    def call(*arguments, **keywords):
        if is_program():
            carrier.note(what)
        return value

    return call


def refusing(what: str, why: str):
    def call(*arguments, **keywords):
        raise CannotCarry(f"{what} {why} and has no form on another device")

    return call


def refusing_class(name: str, refused: Callable) -> type:
    """A class is one still: annotations, `isinstance` and subclasses name it where none is made."""
    return type(name, (), {"__new__": lambda cls, *arguments, **keywords: refused(), "__module__": "torch.cuda"})


def synchronizing(carrier: Carrier, what: str):
    def synchronize(device=None):
        if is_program():
            carrier.note(what)
        carrier.synchronize()

    return synchronize


def properties_of(carrier: Carrier) -> SimpleNamespace:
    return SimpleNamespace(
        name=f"carried to {carrier.kind}", major=8, minor=0, total_memory=MEMORY, multi_processor_count=1, is_integrated=False, is_multi_gpu_board=False,
        gcnArchName="", warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, shared_memory_per_block=48 << 10,
        L2_cache_size=32 << 20, uuid="",
    )


def answers(carrier: Carrier) -> dict[str, Any]:
    def set_device(device):
        carrier.note("torch.cuda.set_device")
        index = torch.device(device).index if isinstance(device, (str, torch.device)) else int(device)
        carrier.index = carrier.index if index is None or index < 0 else index

    stream, properties = Stream(), properties_of(carrier)
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: carrier.replicas,
        "current_device": lambda: carrier.index,
        "set_device": set_device,
        "synchronize": synchronizing(carrier, "torch.cuda.synchronize"),
        "get_device_name": lambda device=None: properties.name,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [],
        "get_gencode_flags": lambda: "",
        "get_allocator_backend": lambda: "native",
        "get_per_process_memory_fraction": lambda device=None: 1.0,
        "is_bf16_supported": lambda *arguments, **keywords: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda device, peer_device: False,
        "cudart": Runtime,
        "mem_get_info": lambda device=None: (MEMORY, MEMORY),
        "memory_stats": lambda device=None: defaultdict(int),
        "host_memory_stats": lambda: defaultdict(int),
        "memory_stats_as_nested_dict": lambda device=None: {},
        "host_memory_stats_as_nested_dict": lambda: {},
        "memory_snapshot": lambda *arguments, **keywords: [],
        "memory_summary": lambda device=None, abbreviated=False: f"carried to {carrier.kind}: no CUDA memory",
        "list_gpu_processes": lambda device=None: f"carried to {carrier.kind}: no GPU",
        "graph_pool_handle": lambda: (0, 0),
        "Stream": Stream,
        "Event": Event,
        "ExternalStream": Stream,
        "get_stream_from_external": lambda data_ptr, device=None: stream,
        "device": Block,
        "device_of": Block,
        "stream": Block,
        "StreamContext": Block,
        "MemPool": Block,
        "use_mem_pool": Block,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "make_graphed_callables": lambda callables, *arguments, **keywords: callables,
        "default_generators": tuple(torch.Generator() for _ in range(carrier.replicas)),
        "nccl.version": lambda: (2, 27, 5),
        "nccl.is_available": lambda tensors: True,
    }


def tensor_type(carrier: Carrier, name: str, dtype: torch.dtype) -> type:
    """`torch.cuda.FloatTensor`: a constructor, a type to convert to, and a class to test for."""
    plain = getattr(torch, name)

    class Meta(type):
        def __call__(cls, *arguments, **keywords):
            keywords.pop("device", None)
            carrier.note(f"torch.cuda.{name}")
            made = plain(*arguments) if not (arguments and isinstance(arguments[0], torch.Tensor)) else arguments[0].to(dtype)
            return made.to(carrier.device)

        def __instancecheck__(cls, value):
            return isinstance(value, torch.Tensor) and value.dtype == dtype and value.device.type == carrier.kind

    return Meta(name, (), {"carried_dtype": dtype, "dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"})


def install_random(carrier: Carrier) -> None:
    """The device has a generator beside the host's: seeding it leaves the host's alone. `torch.manual_seed` seeds all."""

    def seed(*arguments):
        if is_program():
            carrier.note("torch.cuda.manual_seed")
        if carrier.kind == "xla" and arguments:
            import torch_xla

            torch_xla.manual_seed(int(arguments[0]))

    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all"):
        replace(torch.cuda, name, seed)
    get, put = (states_of_xla if carrier.kind == "xla" else no_states)()
    states = {
        "get_rng_state": lambda device="cuda": get(),
        "set_rng_state": lambda new_state, device="cuda": put(new_state),
        "get_rng_state_all": lambda: [get()],
        "set_rng_state_all": lambda new_states: put(next(iter(new_states))) if len(new_states) else None,
        "initial_seed": lambda: 0,
    }
    for name, value in states.items():
        replace(torch.cuda, name, value)


def no_states():
    """On the CPU the host's generator draws everything, and its state is saved as the host's."""
    state = torch.zeros(16, dtype=torch.uint8)
    return state.clone, lambda new: None


def states_of_xla():
    """A state is XLA's seed, as bytes."""
    import torch_xla.core.xla_model as xm

    def get() -> torch.Tensor:
        return torch.tensor([xm.get_rng_state()], dtype=torch.int64, device="cpu").view(torch.uint8)

    def put(state: torch.Tensor) -> None:
        xm.set_rng_state(int(state.cpu()[:8].view(torch.int64).item()))

    return get, put


def install_profiling(carrier: Carrier) -> None:
    nvtx = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, lambda *arguments, **keywords: 0)
    nvtx.range = Block
    for name in ("start", "stop", "init"):
        setattr(torch.cuda.profiler, name, noting(carrier, f"torch.cuda.profiler.{name}", None))


def install_accelerator(carrier: Carrier) -> None:
    cuda, stream = torch.cuda, torch.cuda.current_stream()
    names = {
        "is_available": lambda: True,
        "device_count": lambda: carrier.replicas,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": cuda.current_device,
        "current_device_idx": cuda.current_device,
        "set_device_index": cuda.set_device,
        "set_device_idx": cuda.set_device,
        "synchronize": synchronizing(carrier, "torch.accelerator.synchronize"),
        "current_stream": lambda device=None: stream,
        "set_stream": noting(carrier, "torch.accelerator.set_stream", None),
        "device_index": Block,
        "memory_stats": cuda.memory_stats,
        **{name: noting(carrier, f"torch.accelerator.{name}", None) for name in ("empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats")},
        **{name: noting(carrier, f"torch.accelerator.{name}", 0) for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")},
    }
    for name, value in names.items():
        replace(torch.accelerator, name, value)
    torch.get_device_module = lambda device=None: cuda
