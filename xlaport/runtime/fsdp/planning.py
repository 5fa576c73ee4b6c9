"""What a mesh costs in memory, before anything is allocated: the model may be on the meta device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from xlaport.errors import UserError
from xlaport.runtime.fsdp.layout import REPLICATE_BELOW, Layout, buffer_layouts, parameter_layouts
from xlaport.runtime.fsdp.mesh import Mesh
from xlaport.runtime.fsdp.policy import Policy, Unit, check_shared, units_of
from xlaport.runtime.fsdp.tensor_parallel import Rules

STATES = {"none": 0, "sgd": 0, "momentum": 1, "adagrad": 1, "rmsprop": 1, "lion": 1, "adam": 2, "adamw": 2}
"""Tensors of a parameter's size that an optimizer keeps, in the parameter's type."""

WIDTH = 80
"""Columns of a terminal."""


@dataclass(frozen=True)
class Plan:
    """Of each parameter where its parts are, and bytes on one chip. `str` of it is a table of 80 columns."""

    mesh: Mesh
    parameters: tuple[Layout, ...]
    buffers: tuple[Layout, ...]
    units: tuple[str, ...]
    optimizer: str
    trained: frozenset[str]
    gathered: int
    """Bytes of the largest unit's parameters, whole: what a chip holds besides while it computes that unit."""

    @property
    def parameter_bytes(self) -> int:
        """Bytes on one chip, with what the compiler pads."""
        return sum(layout.bytes_on_chip(self.mesh) for layout in self.parameters)

    @property
    def gradient_bytes(self) -> int:
        return sum(layout.bytes_on_chip(self.mesh) for layout in self.parameters if layout.name in self.trained)

    @property
    def optimizer_bytes(self) -> int:
        return self.gradient_bytes * STATES[self.optimizer]

    @property
    def buffer_bytes(self) -> int:
        return sum(layout.bytes_on_chip(self.mesh) for layout in self.buffers)

    @property
    def total_bytes(self) -> int:
        """Of what stays on a chip through training; activations are not in it."""
        return self.parameter_bytes + self.gradient_bytes + self.optimizer_bytes + self.buffer_bytes

    def __str__(self) -> str:
        rows = [("parameter", "shape", "over", "a chip"), *(self._row(group) for group in repeated(self.parameters))]
        totals = [
            ("parameters", self.parameter_bytes), ("gradients", self.gradient_bytes), (f"optimizer ({self.optimizer})", self.optimizer_bytes),
            ("buffers", self.buffer_bytes), ("together", self.total_bytes), ("largest unit, gathered", self.gathered),
        ]
        head = f"{self.mesh.size} {'chip' if self.mesh.size == 1 else 'chips'} ({self.mesh}), {len(self.units)} units"
        return "\n".join([head, *table(rows), "", "on one chip, without activations:", *(f"  {name:<30}{size(count):>12}" for name, count in totals)])

    def _row(self, group: Sequence[Layout]) -> tuple[str, str, str, str]:
        first = group[0]
        times = f"  x {len(group)}" if len(group) > 1 else ""
        over = " ".join("-" if axes is None else axes if isinstance(axes, str) else "+".join(axes) for axes in first.spec)
        return (
            pattern(first.name, len(group)) + times, " x ".join(map(str, first.shape)) or "scalar",
            "whole" if first.is_replicated else over, size(sum(layout.bytes_on_chip(self.mesh) for layout in group)),
        )


def plan(
    model: nn.Module,
    mesh: Mesh,
    policy: Policy = "auto",
    *,
    optimizer: str = "adamw",
    tensor_parallel: Rules | None = None,
    replicate_below: int = REPLICATE_BELOW,
) -> Plan:
    """What `wrap` with these arguments puts on each chip. `mesh` may be any `Mesh(data=, fsdp=, model=)`, without its chips.

        with torch.device("meta"):
            model = GPT(config)
        print(fsdp.plan(model, fsdp.Mesh(fsdp=64)))
    """
    if optimizer not in STATES:
        raise UserError(f"plan: optimizer={optimizer!r} is not known; one of {', '.join(STATES)}")
    units = units_of(model, policy)
    check_shared(model, units)
    layouts = parameter_layouts(model, mesh, tensor_parallel, replicate_below)
    trained = frozenset(name for name, parameter in model.named_parameters() if parameter.requires_grad)
    gathered = max(gathered_bytes(unit, units, mesh, layouts) for unit in [*units, Unit("", model)])
    return Plan(mesh, tuple(layouts.values()), tuple(buffer_layouts(model).values()), tuple(unit.name for unit in units), optimizer, trained, gathered)


def gathered_bytes(unit: Unit, units: Sequence[Unit], mesh: Mesh, layouts: Mapping[str, Layout]) -> int:
    """Of a unit's parameters that are in no unit below it, whole but for what `model` divides."""
    below = {id(parameter) for other in units if other is not unit and other.is_below(unit) for parameter in other.module.parameters()}
    names = [name for name, parameter in named(unit) if id(parameter) not in below]
    return sum(layouts[name].bytes_on_chip(Mesh(model=mesh.model)) for name in names if name in layouts)


def named(unit: Unit) -> Iterator[tuple[str, nn.Parameter]]:
    prefix = f"{unit.name}." if unit.name else ""
    return ((f"{prefix}{name}", parameter) for name, parameter in unit.module.named_parameters())


def repeated(layouts: Sequence[Layout]) -> list[list[Layout]]:
    """Those that differ by a number in their name only, together, in the order of the first."""
    groups: dict[tuple, list[Layout]] = {}
    for layout in layouts:
        groups.setdefault((pattern(layout.name, 2), layout.shape, layout.dtype, layout.spec), []).append(layout)
    return list(groups.values())


def pattern(name: str, count: int) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name, count=1) if count > 1 else name


def table(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Columns as wide as they need be; the first gives way, from its middle, where a line would be over 80."""
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    first = max(16, min(widths[0], WIDTH - sum(widths[1:]) - 6))
    return [f"{shortened(name, first):<{first}}  {shape:<{widths[1]}}  {over:<{widths[2]}}  {bytes_:>{widths[3]}}" for name, shape, over, bytes_ in rows]


def shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    head = (width - 3) // 3
    return f"{name[:head]}...{name[-(width - 3 - head):]}"


def size(count: int) -> str:
    for unit, exponent in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << exponent:
            return f"{count / (1 << exponent):.1f} {unit}"
    return f"{count} B"
