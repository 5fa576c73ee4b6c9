"""Where the parts of each parameter are: pure arithmetic on names, shapes and a mesh."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from xlaport.runtime.fsdp.mesh import Mesh, Spec
from xlaport.runtime.fsdp.tensor_parallel import Rules, model_dims

REPLICATE_BELOW = 4096
"""Elements. A smaller parameter (a norm, a bias) costs less memory than its gathering costs time: it is whole everywhere."""


@dataclass(frozen=True)
class Layout:
    """A parameter or buffer: its name, shape, type, and the axes its dimensions are divided over."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    spec: Spec

    @property
    def is_replicated(self) -> bool:
        return not any(self.spec)

    def shape_on_chip(self, mesh: Mesh) -> tuple[int, ...]:
        """The largest part; the last chips may have less, which the compiler pads."""
        return tuple(math.ceil(size / mesh.parts(axes)) for size, axes in zip(self.shape, self.spec))

    def elements_on_chip(self, mesh: Mesh) -> int:
        return math.prod(self.shape_on_chip(mesh))

    def bytes_on_chip(self, mesh: Mesh) -> int:
        return self.elements_on_chip(mesh) * self.dtype.itemsize


def parameter_layouts(model: nn.Module, mesh: Mesh, rules: Rules | None, replicate_below: int) -> dict[str, Layout]:
    """By name; a tied parameter has the first of its names."""
    divided = model_dims(model, mesh, rules)
    return {
        name: Layout(name, tuple(parameter.shape), parameter.dtype, spec_of(tuple(parameter.shape), divided.get(name), mesh, replicate_below))
        for name, parameter in model.named_parameters()
    }


def buffer_layouts(model: nn.Module) -> dict[str, Layout]:
    """Buffers are whole on every chip."""
    return {name: Layout(name, tuple(buffer.shape), buffer.dtype, (None,) * buffer.dim()) for name, buffer in model.named_buffers()}


def spec_of(shape: tuple[int, ...], model_dim: int | None, mesh: Mesh, replicate_below: int) -> Spec:
    """`model_dim` is divided over `model`; of the others the largest that `fsdp` divides, else the largest, over `fsdp`.

    torch_xla's SpmdFullyShardedDataParallel takes the largest in any case, and pads a vocabulary of 50257 on 8 chips.
    """
    axes: dict[int, str] = {} if model_dim is None else {model_dim: "model"}
    if mesh.fsdp > 1 and math.prod(shape) >= replicate_below:
        free = [dim for dim, size in enumerate(shape) if dim != model_dim and size > 1]
        even = [dim for dim in free if shape[dim] % mesh.fsdp == 0]
        # max gives the first of equals, as torch_xla does.
        if free:
            axes[max(even or free, key=lambda dim: shape[dim])] = "fsdp"
    return tuple(axes.get(dim) for dim in range(len(shape)))


def mark_parameters(model: nn.Module, mesh: Mesh, layouts: Mapping[str, Layout]) -> None:
    for name, parameter in model.named_parameters():
        mesh.mark(parameter, layouts[name].spec)
