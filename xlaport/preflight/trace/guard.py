"""Looks at every operation while a step is traced: lists what torch_xla does not lower and what reads a value, and goes on.

Without it an operation that falls back to the host would read data that does not exist, and abort the process. One trace
lists all such places: an operation without a lowering is run on meta tensors and its results become placeholders; a read
of a value gets ones.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from xlaport.errors import UserError
from xlaport.preflight.step import Site
from xlaport.preflight.trace import lazy, lines

KERNELS = ("XLA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
WANTS_VALUE = ("Unexpected execution happens", "handle->HasValue()")
"""What torch_xla raises when a lowering needs a value and execution is forbidden."""

SAID = 1024
"""Bytes of the trail."""


@dataclass
class Found:
    """(operator, line) -> how often. `unlowered` run on the host; `reads` wait for a value; `dynamic` have a shape that depends on data."""

    unlowered: dict[tuple[str, str], int] = field(default_factory=dict)
    reads: dict[tuple[str, str], int] = field(default_factory=dict)
    dynamic: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, kind: str, operator: str) -> None:
        sites = getattr(self, kind)
        key = operator, lines.here()
        sites[key] = sites.get(key, 0) + 1

    def as_json(self) -> list[dict[str, Any]]:
        return [
            asdict(Site(kind, operator, line, count))
            for kind in ("unlowered", "reads", "dynamic") for (operator, line), count in getattr(self, kind).items()
        ]


class Guard(TorchDispatchMode):
    """Sees what autograd and autocast leave of a step, operation by operation. `trail` is a file that names the present one."""

    def __init__(self, found: Found, trail: Path) -> None:
        super().__init__()
        self.found = found
        trail.write_bytes(bytes(SAID))
        self.stream = open(trail, "r+b")
        self.trail = mmap.mmap(self.stream.fileno(), SAID)  # what is written here outlives an abort

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not any(is_on_device(value) for value in tree_flatten((args, kwargs))[0]):
            return func(*args, **kwargs)
        name = func._schema.name
        site = off_device(func, args, kwargs)
        if site:
            self.found.add(*site)
            return ANSWERS.get(name, on_meta)(func, args, kwargs)
        self.note(name)
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if not any(words in str(error) for words in WANTS_VALUE):
                raise
            self.found.add("unlowered", name)
            return on_meta(func, args, kwargs)

    def clear(self) -> None:
        """Forget what was found: the step that made the optimizer's state is not the one that is reported."""
        self.found.__init__()

    def note(self, name: str) -> None:
        said = f"{name} {lines.here()}".encode()[: SAID - 1]
        self.trail[: len(said) + 1] = said + b"\0"


def is_on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla"


def is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def off_device(func: Any, args: Any, kwargs: Any) -> tuple[str, str] | None:
    """The kind of an operation on a device tensor that does not run there, and what it is called; None for one that does."""
    name = func._schema.name
    if name in COPIES:
        return ("reads", name) if leaves_device(name, args, kwargs) else None
    if name in READS:
        return "reads", name
    if name in DYNAMIC:
        return "dynamic", name
    if name == "aten::index" and any(is_mask(index) for index in args[1]):
        return "dynamic", "aten::index (mask)"
    return None if has_kernel(func) else ("unlowered", name)


def leaves_device(name: str, args: Any, kwargs: Any) -> bool:
    """Is a copy one to the host (`print`, `.cpu()`, `.tolist()`)? Any other is an operation of the device."""
    if name == "aten::copy_":
        return args[0].device.type != "xla"
    return kwargs.get("device") is not None and torch.device(kwargs["device"]).type != "xla"


def has_kernel(func: Any) -> bool:
    """Is there a lowering? Views, in-place and `out=` forms are made of the functional ones by functionalization."""
    schema = func._schema
    if schema.name.startswith(("prim", "xla")) or func.is_view or schema.is_mutable or torch.Tag.view_copy in func.tags:
        return True
    full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for key in KERNELS)


def on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operation by its shapes only, as placeholders."""
    def to_meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty(value.shape, dtype=value.dtype, device="meta")
        return torch.device("meta") if isinstance(value, torch.device) else value

    try:
        made = func(*tree_map(to_meta, args), **tree_map(to_meta, kwargs))
    except (NotImplementedError, RuntimeError):
        raise UserError(f"what {func._schema.name} gives cannot be known without running it, so what comes after it was not traced") from None
    return tree_map(lambda value: lazy.placeholder(value.shape, value.dtype) if isinstance(value, torch.Tensor) else value, made)


def report_printing(record: Callable[[str], None]) -> None:
    """Printing a tensor switches modes off and reads it; from here on it is recorded, and its text has no values."""
    from torch import _tensor_str

    plain = _tensor_str._str

    def text_of(tensor: torch.Tensor, *, tensor_contents: Any = None) -> str:
        if not is_on_device(tensor):
            return plain(tensor, tensor_contents=tensor_contents)
        record("print")
        return f"tensor(..., device='xla:0', size={tuple(tensor.shape)}, dtype={tensor.dtype})"

    _tensor_str._str = text_of


# -- what operations get that want a value, or a shape that depends on one


def scalar(func: Any, args: Any, kwargs: Any) -> Any:
    """`.item()`, `if tensor:`, `float(tensor)`: one, which is true and divides."""
    return torch.ones((), dtype=args[0].dtype).item()


def equal(func: Any, args: Any, kwargs: Any) -> bool:
    return True


def copied(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return torch.ones(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype, device=kwargs["device"])


def copied_into(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return args[0].fill_(1)


def nonzero(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return lazy.placeholder((args[0].numel(), args[0].dim()), torch.int64)


def flattened(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    return lazy.placeholder((args[0].numel(),), args[0].dtype)


def unique(func: Any, args: Any, kwargs: Any) -> tuple[torch.Tensor, ...]:
    counted = lazy.placeholder((args[0].numel(),), torch.int64)
    return lazy.placeholder((args[0].numel(),), args[0].dtype), lazy.placeholder(args[0].shape, torch.int64), counted


def masked(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """`x[mask]`: as long as the mask could make it."""
    source, indices = args
    chosen, kept, axis = 1, [], 0
    for index in indices:
        if index is None:
            kept.append(source.shape[axis])
            axis += 1
        else:
            axis += index.dim() if is_mask(index) else 1
            chosen = max(chosen, prod(index.shape))
    return lazy.placeholder((chosen, *kept, *source.shape[axis:]), source.dtype)


Answer = Callable[[Any, Any, Any], Any]
READS: dict[str, Answer] = {"aten::_local_scalar_dense": scalar, "aten::equal": equal}
COPIES: dict[str, Answer] = {"aten::_to_copy": copied, "aten::copy_": copied_into}
DYNAMIC: dict[str, Answer] = {"aten::nonzero": nonzero, "aten::masked_select": flattened, "aten::_unique2": unique}
ANSWERS: dict[str, Answer] = {**READS, **COPIES, **DYNAMIC, "aten::index": masked}
"""Operator -> what it gives while a step is traced. Any other that is not on the device gives what it gives on meta."""
