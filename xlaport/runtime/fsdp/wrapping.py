"""A model becomes one whose parameters are divided over chips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from xlaport.errors import UserError
from xlaport.runtime.fsdp import precision, recompute
from xlaport.runtime.fsdp.layout import REPLICATE_BELOW, Layout, mark_parameters, parameter_layouts
from xlaport.runtime.fsdp.mesh import Mesh
from xlaport.runtime.fsdp.policy import Policy, Unit, check_shared, units_of
from xlaport.runtime.fsdp.tensor_parallel import Rules


without_values: Callable[[nn.Module], None] | None = None
"""Gives a model on meta tensors that can be traced. Set by `xlaport preflight`, which runs nothing; a model that is to run needs values."""


@dataclass(frozen=True, eq=False)
class Wrapped:
    """What `wrap` did to a model; kept on it as `_xlaport_fsdp`."""

    mesh: Mesh
    layouts: Mapping[str, Layout]
    units: tuple[str, ...]


def wrap(
    model: nn.Module,
    mesh: Mesh,
    policy: Policy = "auto",
    *,
    mixed_precision: str | torch.dtype | None = None,
    activation_checkpointing: bool | Policy = False,
    tensor_parallel: Rules | None = None,
    replicate_below: int = REPLICATE_BELOW,
    batch_dim: int = 0,
) -> nn.Module:
    """Put `model` on the device and divide it over `mesh`. Gives the same model: names, attributes and `state_dict` stay.

    The annotations are those of torch_xla's `SpmdFullyShardedDataParallel` around each unit of `policy`, and the compiled
    program is the same (measured: identical optimized HLO of a GPT and a ViT). Parameters keep their identity, so that an
    optimizer may be made before or after, and tied ones stay tied.

    policy: see `policy.units_of`. mixed_precision: "bf16" computes in bfloat16 and keeps float32 parameters; results of the
    model are float32. activation_checkpointing: True for the units of `policy`, or a policy of its own. tensor_parallel:
    rules for `mesh.model` chips, in place of those for common transformers. replicate_below: elements under which a
    parameter is whole on every chip. batch_dim: which dimension of the units' results counts the rows of the batch.

    On a mesh of one chip only the device, the precision and the checkpointing remain.
    """
    if without_values is not None:
        without_values(model)
    refuse(model)
    units = units_of(model, policy)
    check_shared(model, units)
    dtype = precision.compute_dtype(mixed_precision)
    layouts = parameter_layouts(model, mesh, tensor_parallel, replicate_below)
    recomputed = recomputed_units(model, units, activation_checkpointing)

    move_to_device(model)
    mark_parameters(model, mesh, layouts)
    root = Unit("", model)
    if dtype is not None:
        precision.norms_in_float32(model, dtype)
    for unit in [*inner_first(units, recomputed), root]:
        inner = {id(other.module) for other in units if other.module is not unit.module}
        set_forward(unit, dtype, inner, is_recomputed=unit in recomputed, is_cast=unit in units or unit is root)
    for unit in [*units, root]:
        if mesh.size > 1:
            constrain(unit.module, mesh, batch_dim)
    model._xlaport_fsdp = Wrapped(mesh, layouts, tuple(unit.name for unit in units))
    return model


def wrapped(model: nn.Module) -> Wrapped | None:
    """What `wrap` did to a model, if it did."""
    return getattr(model, "_xlaport_fsdp", None)


def refuse(model: nn.Module) -> None:
    if wrapped(model) is not None:
        raise UserError(f"wrap: this {type(model).__name__} is wrapped already")
    for name, parameter in model.named_parameters():
        if parameter.device.type == "meta":
            raise UserError(f"wrap: {name} is on the meta device and has no values; give the model its values first (plan needs none)")
        if parameter.device.type not in {"cpu", "xla"}:
            raise UserError(f"wrap: {name} is on {parameter.device}; it must be on the CPU or on XLA")


def recomputed_units(model: nn.Module, units: list[Unit], wanted: bool | Policy) -> list[Unit]:
    if wanted is False or wanted is None:
        return []
    if wanted is not True:
        same = {id(unit.module): unit for unit in units}
        return [same.get(id(unit.module), unit) for unit in units_of(model, wanted, "activation_checkpointing")]
    if not units:
        raise UserError(f"activation_checkpointing: the policy finds no units in {type(model).__name__}; name the classes to compute again")
    return units


def inner_first(units: list[Unit], others: list[Unit]) -> list[Unit]:
    both = {id(unit.module): unit for unit in [*units, *others]}
    return sorted(both.values(), key=lambda unit: -unit.name.count("."))


def move_to_device(model: nn.Module) -> None:
    """Without swapping, `.to("xla")` makes new parameters: optimizers hold the old ones, and ties are lost.

    What is on the device stays as it is, with what is kept beside a tensor that has no data yet (`xlaport preflight`).
    """
    if all(tensor.device.type == "xla" for tensor in (*model.parameters(), *model.buffers())):
        return
    with swapped_parameters():
        model.to("xla")


@contextmanager
def swapped_parameters():
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


def set_forward(unit: Unit, dtype: torch.dtype | None, inner: set[int], is_recomputed: bool, is_cast: bool) -> None:
    compute: Callable[..., Any] = unit.module.forward
    if dtype is not None and is_cast:
        compute = precision.in_dtype(unit.module, inner, compute, dtype)
    if dtype is not None and not unit.name:
        compute = precision.at_the_root(compute, dtype)
    if is_recomputed:
        compute = recompute.recomputed(unit.module, compute)
    if compute is not unit.module.forward:
        unit.module.forward = compute


def constrain(module: nn.Module, mesh: Mesh, batch_dim: int) -> None:
    """What torch_xla's wrapper adds to a unit: a barrier behind its backward pass, and its result divided like the batch.

    The barrier keeps the compiler from fusing the gradients of several units into one buffer; without the mark on the
    result it may gather the batch instead of the parameters.
    """
    import torch_xla.distributed.spmd.xla_sharding as xla_sharding

    xla_sharding.apply_backward_optimization_barrier(module)

    def mark_result(_: nn.Module, args: Any, result: Any) -> None:
        first = next((leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)), None)
        if first is not None and first.dim() > batch_dim:
            mesh.mark(first, mesh.batch_spec(first.dim(), batch_dim))

    module.register_forward_hook(mark_result)
