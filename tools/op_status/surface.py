"""Public names of torch: their other spellings, the operator behind each, and those that run none."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import overrides

from .dispatcher import Resolution

NAMESPACES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn.utils",
    "torch.nn.utils.rnn", "torch.nn.utils.parametrizations", "torch.nn.init", "torch.optim", "torch.distributions", "torch.func",
    "torch.autograd", "torch.functional", "torch.utils.checkpoint",
)  # fmt: skip

_OPERATOR_PREFIX = {
    "torch": "", "torch.Tensor": "", "torch.nn.functional": "", "torch.linalg": "linalg_", "torch.fft": "fft_",
    "torch.special": "special_",
}  # fmt: skip
_HOST_NAMESPACES = ("torch.utils.data", "torch.optim.lr_scheduler")
_HOST_TYPES = (
    "device", "dtype", "Size", "Generator", "finfo", "iinfo", "layout", "memory_format", "no_grad", "enable_grad",
    "set_grad_enabled", "inference_mode",
)  # fmt: skip
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format, float)


def resolve_name(qualified: str) -> Any:
    """The object behind `torch.nn.functional.relu`; None when there is none."""
    value: Any = torch
    for part in qualified.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def public_names(namespace: str) -> Iterator[tuple[str, Any]]:
    owner = torch.Tensor if namespace == "torch.Tensor" else importlib.import_module(namespace)
    for name in dir(owner):
        if not name.startswith("_"):
            yield f"{namespace}.{name}", getattr(owner, name, None)


def spellings() -> dict[int, list[str]]:
    """Public names by the identity of the function or class they stand for."""
    found: dict[int, list[str]] = {}
    for namespace in NAMESPACES:
        for name, value in public_names(namespace):
            if callable(value):
                found.setdefault(id(value), []).append(name)
    return found


def _defining_name(value: Any) -> str | None:
    """Where a class or function is defined: `torch.nn.modules.conv.Conv2d`."""
    module, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", None) or ""
    found = getattr(sys.modules.get(module), name, None)
    return f"{module}.{name}" if module.startswith("torch.") and found is value else None


def all_names(api: str, by_identity: dict[int, list[str]]) -> set[str]:
    """The public spellings of an API."""
    value = resolve_name(api)
    if not callable(value):
        return {api}
    names = (*by_identity.get(id(value), ()), _defining_name(value) or api)
    return {api, *filter(_is_public, names)}


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def dispatched(resolved: dict[str, Resolution]) -> Iterator[tuple[str, dict[str, Resolution]]]:
    """Public functions named after an operator, with how its overloads resolve."""
    for namespace, prefix in _OPERATOR_PREFIX.items():
        for name, value in public_names(namespace):
            operator = prefix + name.rpartition(".")[2]
            overloads = _overloads(operator, resolved) if callable(value) else {}
            if overloads:
                yield name, overloads


def _overloads(operator: str, resolved: dict[str, Resolution]) -> dict[str, Resolution]:
    packet = getattr(torch.ops.aten, operator, None)
    if packet is None:
        return {}
    names = [operator if overload == "default" else f"{operator}.{overload}" for overload in packet.overloads()]
    return {name: resolved[name] for name in names if name in resolved}


def host_names(resolved: dict[str, Resolution]) -> set[str]:
    """Names that run no tensor operation: data types, modes, loaders, schedules, settings."""
    operators = {name.partition(".")[0] for name in resolved}
    ignored = overrides.get_ignored_functions()
    found = {f"torch.{name}" for name in _HOST_TYPES}
    for name, value in public_names("torch"):
        plain = name.rpartition(".")[2]
        if isinstance(value, _CONSTANTS) or (_hashable(value) and value in ignored and plain not in operators):
            found.add(name)
    for namespace in _HOST_NAMESPACES:
        module = importlib.import_module(namespace)
        found |= {f"{namespace}.{name}" for name in module.__all__ if not name.startswith("_")}
    return found


def _hashable(value: Any) -> bool:
    return callable(value) and type(value).__hash__ is not None
