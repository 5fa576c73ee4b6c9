"""Device arguments of torch's own functions, exchanged where they are called.

One `TorchFunctionMode` sees every call of torch's functions and methods in Python, also those inside `Module.to`; so no
list of functions is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from xlaport.runtime import modes
from xlaport.runtime.carry.callers import is_program
from xlaport.runtime.carry.carrier import Carrier

Special = Callable[[Carrier, Callable, tuple, dict], Any]


class Carried(TorchFunctionMode):
    def __init__(self, carrier: Carrier):
        super().__init__()
        self.carrier = carrier

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        special = SPECIAL.get(function)
        if special is not None:
            return special(self.carrier, function, args, kwargs)
        if kwargs:
            kwargs = exchanged(self.carrier, kwargs)
        return function(*args, **kwargs)


def exchanged(carrier: Carrier, keywords: dict) -> dict:
    device = keywords.get("device")
    if device is not None and carrier.place(device) is not device:
        carrier.note("device arguments")
        keywords = {**keywords, "device": carrier.device}
    if keywords.get("pin_memory"):
        carrier.note("pinned memory")
        keywords = {**keywords, "pin_memory": False}
    return keywords


def to(carrier: Carrier, function, args, keywords):
    keywords = exchanged(carrier, keywords)
    if len(args) > 1 and carrier.place(args[1]) is not args[1]:
        carrier.note("moves")
        args = (args[0], carrier.device, *args[2:])
    return function(*args, **keywords)


def cuda(carrier: Carrier, function, args, keywords):
    carrier.note("moves")
    return args[0].to(carrier.device)


def pin(carrier: Carrier, function, args, keywords):
    carrier.note("pinned memory")
    return args[0]


def as_type(carrier: Carrier, function, args, keywords):
    """`x.type(torch.cuda.FloatTensor)`, `x.type("torch.cuda.FloatTensor")` and `x.type()`."""
    wanted = args[1] if len(args) > 1 else keywords.get("dtype")
    if wanted is None and is_program(2) and args[0].device.type == carrier.kind:
        return f"torch.cuda.{NAMES[args[0].dtype]}" if args[0].dtype in NAMES else function(*args, **keywords)
    dtype = cuda_type(wanted)
    if dtype is None:
        return function(*args, **keywords)
    carrier.note("moves")
    return args[0].to(device=carrier.device, dtype=dtype)


def cuda_type(wanted: Any) -> torch.dtype | None:
    """The dtype of a CUDA tensor type, given as its name or class."""
    if isinstance(wanted, str) and wanted.startswith("torch.cuda."):
        return LEGACY.get(wanted.removeprefix("torch.cuda."))
    return getattr(wanted, "carried_dtype", None)


LEGACY = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
"""Names of tensor types -> dtype, as in `torch.cuda.FloatTensor`."""


NAMES = {dtype: name for name, dtype in LEGACY.items()}


def is_cuda(carrier: Carrier, function, args, keywords):
    return args[0].device.type == carrier.kind if is_program(2) else function(*args, **keywords)


def device(carrier: Carrier, function, args, keywords):
    found = function(*args, **keywords)
    return carrier.shown if found.type == carrier.kind and is_program(2) else found


def get_device(carrier: Carrier, function, args, keywords):
    return carrier.index if args[0].device.type == carrier.kind else function(*args, **keywords)


def always(value: Any) -> Special:
    return lambda carrier, function, args, keywords: value


SPECIAL: dict[Callable, Special] = {
    Tensor.to: to,
    Tensor.cuda: cuda,
    Tensor.type: as_type,
    Tensor.pin_memory: pin,
    Tensor.is_pinned: always(True),
    Tensor.is_cuda.__get__: is_cuda,
    Tensor.device.__get__: device,
    Tensor.get_device: get_device,
}


def install(carrier: Carrier) -> None:
    watch_loading(carrier)
    watch_defaults(carrier)
    watch_parallel_modules(carrier)
    watch_compile(carrier)
    if carrier.kind == "xla":
        end_steps(carrier)
        watch_clipping()
    Tensor.record_stream = lambda self, stream: None  # its arguments are checked before a mode sees them
    Carried(carrier).__enter__()
    modes.in_threads(lambda: Carried(carrier))
    watch_backward(carrier)


def watch_backward(carrier: Carrier) -> None:
    """A mode is off while it handles `loss.backward()`: hooks, custom functions and recomputation run in there."""
    run = torch.autograd.graph._engine_run_backward

    def carried(*arguments, **keywords):
        if any(isinstance(mode, Carried) for mode in _get_current_function_mode_stack()):
            return run(*arguments, **keywords)
        with Carried(carrier):
            return run(*arguments, **keywords)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = carried


def watch_loading(carrier: Carrier) -> None:
    load, loader = torch.load, torch.utils.data.DataLoader.__init__
    on_host = {"cuda": "cpu", **{f"cuda:{index}": "cpu" for index in range(64)}}

    def load_here(f, map_location=None, *arguments, **keywords):
        if map_location is None:  # what was saved on CUDA elsewhere; tensors of XLA come back to XLA
            return load(f, on_host, *arguments, **keywords)
        carrier.note("torch.load(map_location=)")
        loaded = load(f, "cpu", *arguments, **keywords)
        return moved(loaded, carrier.device) if carrier.names_cuda(map_location) else loaded

    def unpinned(self, *arguments, **keywords):
        if len(arguments) > PINS and arguments[PINS]:
            carrier.note("pinned memory")
            arguments = (*arguments[:PINS], False, *arguments[PINS + 1 :])
        if keywords.pop("pin_memory", False):
            carrier.note("pinned memory")
        keywords.pop("pin_memory_device", None)
        loader(self, *arguments, **keywords)

    torch.load = load_here
    torch.utils.data.DataLoader.__init__ = unpinned


PINS = 7
"""Position of `pin_memory` among the arguments of a DataLoader."""


def moved(value: Any, device: torch.device) -> Any:
    """What a file held, on the device: tensors and modules in dictionaries, lists and tuples, which are kept."""
    if isinstance(value, (Tensor, nn.Module)):
        return value.to(device)
    if isinstance(value, dict):
        value.update({key: moved(item, device) for key, item in value.items()})
    elif isinstance(value, list):
        value[:] = [moved(item, device) for item in value]
    elif type(value) is tuple:
        return tuple(moved(item, device) for item in value)
    return value


def watch_defaults(carrier: Carrier) -> None:
    """`torch.set_default_device("cuda")`, `with torch.device("cuda")`, `set_default_tensor_type` and generators."""
    default, tensor_type, context = torch.set_default_device, torch.set_default_tensor_type, DeviceContext.__init__

    def set_default_device(device):
        if carrier.place(device) is not device:
            carrier.note("default device")
        default(carrier.place(device))

    def set_default_tensor_type(kind):
        dtype = cuda_type(kind)
        if dtype is None:
            default(None)
            return tensor_type(kind)
        carrier.note("default tensor type")
        torch.set_default_dtype(dtype)
        return default(carrier.device)

    def enter(self, device):
        context(self, carrier.place(device))

    torch.set_default_device, torch.set_default_tensor_type = set_default_device, set_default_tensor_type
    DeviceContext.__init__ = enter
    torch.Generator = generator_class(carrier)


def generator_class(carrier: Carrier) -> type:
    """Generators of the host, for every device: torch_xla 2.9 has none of its own."""
    original = torch.Generator

    class Meta(type(original)):
        def __instancecheck__(cls, value):
            return isinstance(value, original)

    class Generator(original, metaclass=Meta):
        def __new__(cls, device="cpu"):
            if carrier.names_cuda(device):
                carrier.note("generators")
                device = "cpu"
            return original.__new__(original, device)

    return Generator


def watch_parallel_modules(carrier: Carrier) -> None:
    """`nn.DataParallel` over the one device there is: its module, unscattered."""

    def init(self, module, device_ids=None, output_device=None, dim=0):
        carrier.note("nn.DataParallel")
        torch.nn.Module.__init__(self)
        self.module, self.dim, self.device_ids, self.output_device = module, dim, [], None

    def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
        carrier.note("nn.DataParallel")
        return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))

    nn.DataParallel.__init__ = init
    nn.parallel.data_parallel = sys.modules["torch.nn.parallel.data_parallel"].data_parallel = data_parallel


def watch_compile(carrier: Carrier) -> None:
    """Compilation changes no result, and torch's default compiler needs the device it compiles for."""

    def compile_nothing(model=None, **keywords):
        carrier.leave_out("torch.compile")
        return model if model is not None else lambda function: function

    def compile_module(self, *arguments, **keywords):
        carrier.leave_out("torch.compile")

    torch.compile, torch.nn.Module.compile = compile_nothing, compile_module


def watch_clipping() -> None:
    """torch_xla's own clipping of gradients knows no `foreach`, which changes no number."""
    clip = nn.utils.clip_grad_norm_

    def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
        return clip(parameters, max_norm, norm_type, error_if_nonfinite)

    nn.utils.clip_grad_norm_ = clip_grad_norm_


def end_steps(carrier: Carrier) -> None:
    """On CUDA work starts when it is asked for; on XLA a step of an optimizer is where a graph ends."""
    register_optimizer_step_post_hook(lambda *arguments: carrier.end_step())
