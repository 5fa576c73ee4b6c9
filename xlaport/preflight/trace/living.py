"""The tensors of a running program, and what they are: found in its modules, optimizers and local variables."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from xlaport.preflight.trace import lazy, lines
from xlaport.preflight.trace.program import Named


@dataclass(frozen=True)
class Living:
    """What the collector knew at one moment. `tensors`: those on the device, each value once, the oldest first, as a sync takes them."""

    tensors: tuple[torch.Tensor, ...]
    modules: tuple[torch.nn.Module, ...]
    optimizers: tuple[torch.optim.Optimizer, ...]

    def names(self, gradients: Mapping[int, Named]) -> dict[int, Named]:
        """What the arguments of the pending step are. `gradients`: those that were alive at the sync before, and may be added to."""
        found: dict[int, Named] = {}
        for name, tensor in local_variables():
            found.update(numbered(tensor, Named("state", name)))
        found.update(gradients)
        for optimizer in self.optimizers:
            found.update(optimizer_state(optimizer))
        for module, prefix in self.roots():
            found.update(module_state(module, prefix))
        return found

    def gradients(self) -> dict[int, Named]:
        return {lazy.tensor_id(tensor.grad): Named("gradient", "") for tensor in self.tensors if has_gradient(tensor)}

    def roots(self) -> list[tuple[torch.nn.Module, str]]:
        """Modules that are in no other, with a prefix for the names of their parameters where there are several."""
        inner = {id(child) for module in self.modules for child in module.children()}
        top = [module for module in self.modules if id(module) not in inner and any(True for _ in module.parameters())]
        return [(module, f"{type(module).__name__}." if len(top) > 1 else "") for module in top]

    def trained(self) -> set[torch.nn.Parameter]:
        return {parameter for optimizer in self.optimizers for group in optimizer.param_groups for parameter in group["params"]}


def look() -> Living:
    """One pass over all objects, by their types, each looked at once: there are a million objects of a few thousand types,
    and asking an object for its class may run code of its own."""
    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
    found: dict[type, list[Any]] = {kind: [] for kind in kinds}
    known: dict[type, list[Any] | None] = {}
    for candidate in gc.get_objects():
        made_of = type(candidate)
        if made_of not in known:
            known[made_of] = next((found[kind] for kind in kinds if kind in made_of.__mro__), None)
        listed = known[made_of]
        if listed is not None:
            listed.append(candidate)
    own = [tensor for tensor in found[torch.Tensor] if is_own(tensor)]
    own += [tensor.grad for tensor in own if has_gradient(tensor)]  # nobody may have asked for it yet
    tensors = {lazy.tensor_id(tensor): tensor for tensor in own}
    return Living(tuple(tensors[number] for number in sorted(tensors)), tuple(found[torch.nn.Module]), tuple(found[torch.optim.Optimizer]))


def is_own(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "xla" and lazy.is_lazy(tensor)


def is_leaf(tensor: torch.Tensor) -> bool:
    """No result of autograd's. Asking raises for a view that was made without gradients and whose base was changed with them."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return False


def has_gradient(tensor: torch.Tensor) -> bool:
    return is_leaf(tensor) and tensor.requires_grad and tensor.grad is not None and is_own(tensor.grad)


def module_state(module: torch.nn.Module, prefix: str) -> Iterator[tuple[int, Named]]:
    for name, buffer in module.named_buffers():
        yield from numbered(buffer, Named("buffer", prefix + name))
    for name, parameter in module.named_parameters():
        yield from numbered(parameter, Named("parameter", prefix + name))
        if parameter.grad is not None:
            yield from numbered(parameter.grad, Named("gradient", prefix + name))


def optimizer_state(optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, Named]]:
    parameters = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for parameter in parameters:
        yield from numbered(parameter, Named("parameter", ""))
    for parameter, state in optimizer.state.items():
        for key, value in state.items() if isinstance(state, dict) else ():
            if isinstance(value, torch.Tensor):
                yield from numbered(value, Named("optimizer", key))


def numbered(tensor: torch.Tensor, named: Named) -> Iterator[tuple[int, Named]]:
    """By the value it has and the one that it replaces."""
    if is_own(tensor):
        yield lazy.alias_id(tensor), named
        yield lazy.tensor_id(tensor), named


def local_variables() -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in the variables of the frames that led to the sync, in the order in which a later name of a value is the better one:
    inner frames after outer ones, variables after members of a container, and of several variables the first, which a loop over them follows."""
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        if lines.is_users(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    for frame in reversed(frames):
        variables = reversed(list(frame.f_locals.items()))
        for name, value in sorted(variables, key=lambda variable: torch.Tensor in type(variable[1]).__mro__):
            yield from within(name, value)


def within(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor on the device, or those of a small dict, list or tuple."""
    if torch.Tensor in type(value).__mro__:
        if is_own(value):
            yield name, value
    elif type(value) in (dict, list, tuple) and len(value) <= 100:
        for path, leaf in tree_flatten_with_path(value)[0]:
            if torch.Tensor in type(leaf).__mro__ and is_own(leaf):
                yield name + "".join(map(str, path)), leaf
