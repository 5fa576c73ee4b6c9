"""SPMD annotations on tensors without data, for any number of devices.

torch_xla re-uploads a tensor to annotate it, and autograd breaks with many virtual devices. So the annotation of a
placeholder is kept beside it and put on the program's argument, and the process has two devices whatever the mesh has.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy
import torch
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

SPEC = "_xlaport_sharding"
"""The attribute of a placeholder, or of the parameter around one, that holds its HLO sharding; None before it is annotated."""


class AsksForSpmd(BaseException):
    """The program shards: it has to start again as one that does."""


def refuse_spmd() -> None:
    """Make a program that turns SPMD on raise `AsksForSpmd`."""
    def use_spmd(*args: Any, **kwargs: Any) -> None:
        raise AsksForSpmd

    xr.use_spmd = use_spmd


def pretend(devices: int) -> None:
    """Make SPMD code see `devices` devices. Before the user's module is imported, which may bind the functions."""
    xr.use_spmd()
    xr.global_runtime_device_count = lambda: devices
    annotate = xs.mark_sharding

    def mark_sharding(tensor: Any, mesh: xs.Mesh, partition_spec: tuple) -> Any:
        if not hasattr(tensor, SPEC):
            return annotate(tensor, mesh, partition_spec)
        setattr(tensor, SPEC, hlo_sharding(mesh, partition_spec))
        return tensor

    xs.mark_sharding = mark_sharding


def markable(tensor: torch.Tensor) -> torch.Tensor:
    setattr(tensor, SPEC, None)
    return tensor


def spec_of(tensor: torch.Tensor) -> str | None:
    return getattr(tensor, SPEC, None)


def hlo_sharding(mesh: xs.Mesh, partition_spec: tuple) -> str:
    """What XLA calls a partition spec: `{devices=[4,1]<=[4]}`, with `last_tile_dim_replicate` for axes of the mesh that are not named."""
    sizes, used = mesh.mesh_shape, []
    tiles = []
    for entry in partition_spec:
        axes = [axis_number(mesh, axis) for axis in ((entry,) if not isinstance(entry, tuple) else entry) if axis is not None]
        used += axes
        tiles.append(prod(sizes[axis] for axis in axes))
    if all(extent == 1 for extent in tiles):
        return "{replicated}"
    rest = [axis for axis in range(len(sizes)) if axis not in used]
    copies = prod(sizes[axis] for axis in rest)
    order = numpy.asarray(mesh.device_ids).reshape(sizes).transpose(used + rest).reshape(-1)
    devices = f"<=[{order.size}]" if (order == numpy.arange(order.size)).all() else ",".join(map(str, order))
    tiled = ",".join(map(str, tiles + ([copies] if copies > 1 else [])))
    return f"{{devices=[{tiled}]{devices}{' last_tile_dim_replicate' if copies > 1 else ''}}}"


def axis_number(mesh: xs.Mesh, axis: str | int) -> int:
    """Raises `ValueError`, as torch_xla does where the mesh has no such axis."""
    names = list(mesh.axis_names or ())
    if axis not in names and axis not in range(len(mesh.mesh_shape)):
        raise ValueError(f"the mesh has no axis {axis!r} for a partition spec (its axes: {', '.join(names) or len(mesh.mesh_shape)})")
    return names.index(axis) if axis in names else axis


def shards(spec: str | None) -> int:
    """Into how many different parts a sharding cuts a tensor."""
    tiled = re.search(r"devices=\[([\d,]+)\]", spec or "")
    if not tiled:
        return 1
    extents = [int(extent) for extent in tiled.group(1).split(",")]
    return prod(extents[:-1] if "last_tile_dim_replicate" in spec else extents)
