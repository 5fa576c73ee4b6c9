"""How the chips of a job are arranged: copies of the model (`data`), shards of it (`fsdp`), parts of a layer (`model`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from xlaport.errors import UserError

if TYPE_CHECKING:
    import torch_xla.distributed.spmd as xs

AXES = ("data", "fsdp", "model")

Spec = tuple[str | tuple[str, ...] | None, ...]
"""Of each dimension of a tensor, the axis or axes it is divided over; None where it is whole on every chip."""


@dataclass(frozen=True)
class Mesh:
    """Numbers of chips along each axis. Made without a device, it serves `plan`; `make_mesh` makes one of the chips there are."""

    data: int = 1
    fsdp: int = 1
    model: int = 1

    def __post_init__(self) -> None:
        for axis in AXES:
            if not isinstance(getattr(self, axis), int) or getattr(self, axis) < 1:
                raise UserError(f"mesh: {axis}={getattr(self, axis)!r} must be a whole number of chips, at least 1")

    @property
    def size(self) -> int:
        """All chips."""
        return self.data * self.fsdp * self.model

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """Axes a batch is divided over: each chip of `data` and `fsdp` has rows of its own, those of `model` have the same."""
        return tuple(axis for axis in ("data", "fsdp") if getattr(self, axis) > 1)

    @property
    def batch_parts(self) -> int:
        return self.data * self.fsdp

    def parts(self, axes: str | tuple[str, ...] | None) -> int:
        """Into how many parts a dimension is cut by its entry in a spec."""
        names = (axes,) if isinstance(axes, str) else axes or ()
        return prod(getattr(self, axis) for axis in names)

    def batch_spec(self, dimensions: int, batch_dim: int = 0) -> Spec:
        """Of a tensor with `dimensions` whose `batch_dim` counts the rows of a batch."""
        axes: Any = self.batch_axes[0] if len(self.batch_axes) == 1 else self.batch_axes or None
        return tuple(axes if dim == batch_dim else None for dim in range(dimensions))

    @cached_property
    def devices(self) -> xs.Mesh:
        """torch_xla's mesh, of the axes that have more than one chip, in the order of AXES."""
        import numpy as np
        import torch_xla.distributed.spmd as xs

        used = tuple(axis for axis in AXES if getattr(self, axis) > 1) or ("fsdp",)
        return xs.Mesh(np.arange(self.size), tuple(getattr(self, axis) for axis in used), used)

    def mark(self, tensor: Any, spec: Spec) -> None:
        """Annotate a tensor on the device. Where a dimension does not divide evenly the compiler pads its last shards."""
        import torch_xla.distributed.spmd as xs

        if self.size > 1:
            xs.mark_sharding(tensor, self.devices, spec)

    def __str__(self) -> str:
        return " x ".join(f"{axis} {getattr(self, axis)}" for axis in AXES)


_made: list[Mesh] = []
"""The mesh that was made last, if one was."""


def make_mesh(fsdp: int | None = None, data: int = 1, model: int = 1) -> Mesh:
    """A mesh of all chips of the job. Call it before tensors are put on the device.

    `fsdp` is by default what the others leave. With more than one chip the process enters SPMD mode: it drives all
    chips of its host. On one chip nothing changes, and the same program runs.
    """
    import torch_xla.runtime as xr

    chips = xr.global_runtime_device_count()
    others = Mesh(data=data, model=model).size
    if fsdp is None:
        if chips % others:
            raise UserError(f"mesh: {chips} chips cannot be divided by data={data} x model={model}")
        fsdp = chips // others
    mesh = Mesh(data=data, fsdp=fsdp, model=model)
    if mesh.size != chips:
        raise UserError(f"mesh: data={data} x fsdp={fsdp} x model={model} is {mesh.size} chips, and there are {chips}")
    if chips > 1 and not xr.is_spmd():
        xr.use_spmd()
    _made[:] = [mesh]
    return mesh


def current_mesh() -> Mesh:
    """The mesh that `make_mesh` made last, for code that is not given it; all chips along `fsdp` where none was made."""
    return _made[0] if _made else make_mesh()
