"""Computing in bfloat16 with float32 weights in the optimizer.

Each unit casts its parameters before it computes, so that they travel between chips in 16 bits, and their gradients come
back to the float32 parameter through the cast. Around it is XLA's autocast, which keeps softmax and losses in float32.
Normalisation computes in float32 here: XLA's autocast would leave it in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from xlaport.errors import UserError

NAMES = {"bf16": torch.bfloat16, "bfloat16": torch.bfloat16}
NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.modules.batchnorm._NormBase)


def compute_dtype(mixed_precision: str | torch.dtype | None) -> torch.dtype | None:
    """None is float32 throughout."""
    if mixed_precision in (None, False, torch.float32):
        return None
    found = NAMES.get(mixed_precision, mixed_precision) if isinstance(mixed_precision, str) else mixed_precision
    if found is not torch.bfloat16:
        raise UserError(f'mixed_precision: {mixed_precision!r}; a TPU computes in "bf16", or in float32 with None')
    return found


def in_dtype(module: nn.Module, inner: set[int], compute: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    """`compute` with the parameters of `module` cast, but not those of the modules in `inner` (ids), which cast their own."""
    holders = [part for part in parts(module, inner) if not isinstance(part, NORMS)]

    def forward(*args: Any, **kwargs: Any) -> Any:
        with cast_parameters(holders, dtype), torch.autocast("xla", dtype=dtype):
            return compute(*args, **kwargs)

    return forward


def at_the_root(compute: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    """Inputs of the model in `dtype`; its results in float32, as losses are computed of them."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(lambda value: cast(value, torch.float32, dtype), (args, kwargs))
        return tree_map(lambda value: cast(value, dtype, torch.float32), compute(*args, **kwargs))

    return forward


def norms_in_float32(model: nn.Module, dtype: torch.dtype) -> None:
    """Normalisation takes its input in float32 and gives `dtype`."""
    for module in model.modules():
        if isinstance(module, NORMS):
            module.register_forward_pre_hook(lambda _, args: tuple(cast(value, dtype, torch.float32) for value in args))
            module.register_forward_hook(lambda _, args, output: cast(output, torch.float32, dtype))


def parts(module: nn.Module, inner: set[int]) -> Iterator[nn.Module]:
    """A module and what is below it, without the modules in `inner`."""
    yield module
    for child in module.children():
        if id(child) not in inner:
            yield from parts(child, inner)


@contextmanager
def cast_parameters(holders: Sequence[nn.Module], dtype: torch.dtype) -> Iterator[None]:
    """In place of the parameters stand their casts; a tied parameter has one."""
    casts: dict[int, torch.Tensor] = {}
    kept = []
    for module in holders:
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.dtype is torch.float32:
                if id(parameter) not in casts:
                    casts[id(parameter)] = parameter.to(dtype)
                kept.append((module, name, parameter))
    for module, name, parameter in kept:
        module._parameters[name] = casts[id(parameter)]
    try:
        yield
    finally:
        for module, name, parameter in kept:
            module._parameters[name] = parameter


def cast(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
    return value.to(target) if isinstance(value, torch.Tensor) and value.dtype is source else value
