"""`torch.cuda` and `torch.accelerator`, answering for the carried device: one device, no streams, no memory to count."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from typing import Any

import torch

from xlaport.runtime.carry.calls import LEGACY
from xlaport.runtime.carry.carrier import CannotCarry, Carrier

NOTHING = (
    "set_device init empty_cache ipc_collect reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached"
    " reset_accumulated_memory_stats set_per_process_memory_fraction set_sync_debug_mode set_stream"
    " _lazy_init _sleep memory._record_memory_history memory._dump_snapshot check_error"
).split()
"""Calls that change nothing anywhere else."""

ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached"
    " utilization temperature power_draw clock_rate"
).split()


class Stream:
    """Work is done in the order it is asked for."""

    def __init__(self, *arguments, **keywords):
        self.device, self.cuda_stream = torch.device("cuda", 0), 0

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
        self.idx = 0

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None: ...


def install(carrier: Carrier) -> None:
    cuda = torch.cuda
    for name in NOTHING:
        replace(cuda, name, noting(carrier, f"torch.cuda.{name}", None))
    for name in ZERO:
        replace(cuda, name, noting(carrier, f"torch.cuda.{name}", 0))
    for name, answer in answers(carrier).items():
        replace(cuda, name, answer)
    for name, dtype in LEGACY.items():
        setattr(cuda, name, tensor_type(carrier, name, dtype))
    install_random(carrier)
    install_profiling(carrier)
    install_accelerator(carrier)


def replace(module: Any, name: str, value: Any) -> None:
    """Set a name below a module, and in the submodule that defines it, where other names find it."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    setattr(module, last, value)
    for sub in ("memory", "streams", "random"):
        inner = getattr(module, sub, None)
        if inner is not None and hasattr(inner, last):
            setattr(inner, last, value)


def noting(carrier: Carrier, what: str, value: Any):
    def call(*arguments, **keywords):
        carrier.note(what)
        return value

    return call


def answers(carrier: Carrier) -> dict[str, Any]:
    def synchronize(device=None):
        carrier.note("torch.cuda.synchronize")
        carrier.synchronize()

    stream = Stream()
    properties = SimpleNamespace(
        name=f"carried to {carrier.kind}", major=8, minor=0, total_memory=16 << 30, multi_processor_count=1, is_integrated=False, gcnArchName="", warp_size=32
    )
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: carrier.replicas,
        "current_device": lambda: 0,
        "synchronize": synchronize,
        "get_device_name": lambda device=None: properties.name,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [],
        "is_bf16_supported": lambda *arguments, **keywords: True,
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *devices: False,
        "mem_get_info": lambda device=None: (properties.total_memory, properties.total_memory),
        "memory_stats": lambda device=None: {},
        "memory_summary": lambda device=None, abbreviated=False: f"carried to {carrier.kind}: no CUDA memory",
        "Stream": Stream,
        "Event": Event,
        "ExternalStream": Stream,
        "device": Block,
        "device_of": Block,
        "stream": Block,
        "StreamContext": Block,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "CUDAGraph": refusing("torch.cuda.CUDAGraph"),
        "graph": refusing("torch.cuda.graph"),
        "make_graphed_callables": lambda callables, *arguments, **keywords: callables,
    }


def refusing(what: str):
    def call(*arguments, **keywords):
        raise CannotCarry(f"{what} records CUDA kernels and has no form on another device")

    return call


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
    """The device has a generator beside the host's: seeding it leaves the host's alone."""

    def seeding(*arguments):
        carrier.note("torch.cuda.manual_seed")
        if carrier.kind == "xla" and arguments:
            import torch_xla

            torch_xla.manual_seed(arguments[0])

    state = torch.zeros(16, dtype=torch.uint8)
    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all"):
        replace(torch.cuda, name, seeding)
    for name, value in (("get_rng_state", state), ("get_rng_state_all", [state]), ("set_rng_state", None), ("set_rng_state_all", None), ("initial_seed", 0)):
        replace(torch.cuda, name, noting(carrier, f"torch.cuda.{name}", value))
    if carrier.kind == "xla":
        seed_both()


def seed_both() -> None:
    """`torch.manual_seed` seeds every device of CUDA, and not XLA's (2.9)."""
    import torch_xla

    seed = torch.manual_seed

    def manual_seed(value):
        torch_xla.manual_seed(int(value))
        return seed(value)

    torch.manual_seed = torch.random.manual_seed = manual_seed


def install_profiling(carrier: Carrier) -> None:
    nvtx = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(nvtx, name, lambda *arguments, **keywords: 0)
    nvtx.range = Block
    for name in ("start", "stop"):
        setattr(torch.cuda.profiler, name, noting(carrier, f"torch.cuda.profiler.{name}", None))


def install_accelerator(carrier: Carrier) -> None:
    def synchronize(*arguments, **keywords):
        carrier.note("torch.accelerator.synchronize")
        carrier.synchronize()

    names = {
        "is_available": lambda: True,
        "device_count": lambda: carrier.replicas,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": noting(carrier, "torch.accelerator.set_device_index", None),
        "set_device_idx": noting(carrier, "torch.accelerator.set_device_idx", None),
        "synchronize": synchronize,
        "current_stream": lambda device=None: Stream(),
        "device_index": Block,
        "empty_cache": noting(carrier, "torch.accelerator.empty_cache", None),
    }
    for name, value in names.items():
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, value)
    torch.get_device_module = lambda device=None: torch.cuda
