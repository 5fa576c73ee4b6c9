"""The same step made otherwise: what `--suggest` tries, and fewer layers for `--quick`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from xlaport.errors import UserError
from xlaport.preflight.step import Variant
from xlaport.preflight.trace.contract import Step
from xlaport.runtime.fsdp.recompute import recomputed

Forward = Callable[..., Any]
Layers = nn.ModuleList | nn.Sequential | nn.ModuleDict


def applied(step: Step, variant: Variant) -> Step:
    """The step with a smaller batch and its sharding; the rest concerns the model, see `changed`."""
    if variant.fsdp:
        step = replace(step, shard="fsdp")
    if variant.batch_divisor == 1:
        return step
    uneven = [name for name, entry in step.batch.items() if entry.shape and entry.shape[0] % variant.batch_divisor]
    if uneven:
        raise UserError(f"{', '.join(uneven)}: the batch cannot be cut into {variant.batch_divisor}")
    smaller = {
        name: replace(entry, shape=(entry.shape[0] // variant.batch_divisor, *entry.shape[1:])) if entry.shape else entry
        for name, entry in step.batch.items()
    }
    return replace(step, batch=smaller)


def changed(model: nn.Module, step: Step, variant: Variant, recomputing: Callable[[Forward], Forward] | None = None) -> nn.Module:
    """The model of a variant, still on meta. `recomputing` makes a layer's forward one that is computed again backwards, in place of torch_xla's way."""
    if variant.layers is not None:
        keep_layers(model, variant.layers)
    if variant.dtype:
        model = model.to(getattr(torch, variant.dtype))
    if variant.checkpoint:
        for layer in layers_of(model, step):
            layer.forward = recomputing(layer.forward) if recomputing else recomputed(layer, layer.forward)
    return model


def layer_lists(model: nn.Module) -> list[Layers]:
    """Lists and dicts of at least two layers of one class, those with the most parameters first."""
    lists = [module for module in model.modules() if isinstance(module, Layers) and is_of_equal_layers(list(module.children()))]
    return sorted(lists, key=lambda module: -sum(parameter.numel() for parameter in module.parameters()))


def is_of_equal_layers(layers: list[nn.Module]) -> bool:
    return len(layers) > 1 and len({type(layer) for layer in layers}) == 1 and any(True for _ in layers[0].children())


def layer_classes(model: nn.Module, step: Step) -> tuple[type, ...]:
    """The classes of the repeated blocks: as the factory says, or those of the largest list of equal ones."""
    if step.layers:
        return step.layers
    lists = layer_lists(model)
    return (type(next(lists[0].children())),) if lists else ()


def layers_of(model: nn.Module, step: Step) -> list[nn.Module]:
    found = [module for module in model.modules() if isinstance(module, layer_classes(model, step))]
    if not found:
        raise UserError("the model has no list of equal layers; name their classes as `layers` in what the factory returns")
    return found


def count_layers(model: nn.Module, step: Step) -> int:
    """Of the commonest class of layers; 0 when there are none."""
    counts = Counter(type(module) for module in model.modules() if isinstance(module, layer_classes(model, step)))
    return max(counts.values(), default=0)


def keep_layers(model: nn.Module, count: int) -> None:
    """Cut the largest list of equal layers to its first `count`."""
    lists = layer_lists(model)
    if not lists or len(lists[0]) < count:
        raise UserError(f"the model has no list of {count} equal layers to compile a part of")
    if isinstance(lists[0], nn.ModuleDict):
        for name in list(lists[0])[count:]:
            del lists[0][name]
        return
    del lists[0][count:]
