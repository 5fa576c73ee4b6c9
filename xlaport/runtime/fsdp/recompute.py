"""Activation checkpointing: a unit keeps its inputs, and computes what is between again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from xlaport.runtime.fsdp.policy import Policy, units_of


def recompute(model: nn.Module, policy: Policy | bool = "auto") -> None:
    """Compute units again in the backward pass, in a model that is wrapped already: what `wrap(activation_checkpointing=policy)` does."""
    units = units_of(model, "auto" if policy is True else policy, "recompute")
    for unit in units:
        unit.module.forward = recomputed(unit.module, unit.module.forward)


def recomputed(module: nn.Module, compute: Callable[..., Any]) -> Callable[..., Any]:
    """`compute` with torch_xla's checkpoint around it. Arguments and results may be any nest of tensors.

    torch_xla takes plain tensors only, and puts its barrier around weights and buffers only for a bound method: without
    the barrier the compiler merges the second computation with the first, and saves nothing. Where no input takes a
    gradient (the first unit of a model) the unit is computed as usual: the checkpoint would give its weights none.
    """
    from torch_xla.utils.checkpoint import checkpoint

    def forward(*args: Any, **kwargs: Any) -> Any:
        leaves, nest = tree_flatten((args, kwargs))
        if not torch.is_grad_enabled() or not any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves):
            return compute(*args, **kwargs)
        result_nest = None

        def compute_flat(module: nn.Module, *leaves: Any) -> tuple[Any, ...]:
            nonlocal result_nest
            own_args, own_kwargs = tree_unflatten(list(leaves), nest)
            again = torch.is_grad_enabled()  # the first time is without gradients
            with frozen_statistics(module, again):
                results, result_nest = tree_flatten(compute(*own_args, **own_kwargs))
            return tuple(results)

        results = checkpoint(MethodType(compute_flat, module), *leaves)
        return tree_unflatten(list(results), result_nest)

    return forward


@contextmanager
def frozen_statistics(module: nn.Module, frozen: bool) -> Iterator[None]:
    """The second computation of a batch must not count into the running statistics again."""
    norms = [part for part in module.modules() if frozen and part.training and getattr(part, "track_running_stats", False)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
