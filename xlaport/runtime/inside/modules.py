"""The modules a program runs: their names, buffers and, for one step, their outputs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

WRAPPERS = frozenset({"module", "_orig_mod", "_orig_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Parts of names that wrappers add: a port has others than its original."""

SAMPLE = 1 << 16
"""Elements of an output that are compared, evenly taken: activations of a large model do not fit beside it."""


class Modules:
    """Modules in the order in which they are first called, which is the same in an original and its port."""

    def __init__(self) -> None:
        self.seen: dict[nn.Module, None] = {}
        self.capturing = False
        self.outputs: list[tuple[nn.Module, torch.Tensor]] = []
        register_module_forward_pre_hook(self.entered)
        register_module_forward_hook(self.left)

    def entered(self, module: nn.Module, inputs) -> None:
        self.seen.setdefault(module)

    def left(self, module: nn.Module, inputs, output) -> None:
        if not self.capturing:
            return
        tensor = next(tensors(output), None)
        if tensor is not None and tensor.is_floating_point():
            self.outputs.append((module, sample(tensor.detach())))

    def names(self) -> dict[nn.Module, str]:
        """Module -> dotted name below the outermost module that was called."""
        inner = {child for module in self.seen for child in module.modules() if child is not module}
        named: dict[nn.Module, str] = {}
        for root in self.seen:
            if root in inner:
                continue
            for name, module in root.named_modules():
                named.setdefault(module, plain(name) or type(root).__name__)
        return named

    def parameter_names(self) -> dict[int, str]:
        """Identity of a parameter -> dotted name."""
        found: dict[int, str] = {}
        for module, name in self.names().items():
            for own, parameter in module.named_parameters(recurse=False):
                found.setdefault(id(parameter), own if name == type(module).__name__ else f"{name}.{own}")
        return found

    def buffers(self) -> list[torch.Tensor]:
        """Buffers of the modules called so far, each once."""
        held = {id(buffer): buffer for module in self.seen for buffer in module.buffers(recurse=False)}
        return list(held.values())

    def take_outputs(self) -> list[tuple[str, str, torch.Tensor]]:
        """(name, class, sampled output on the host) of the captured step, in the order in which calls ended."""
        named = self.names()
        taken = [(named.get(module, ""), type(module).__name__, output.float().cpu()) for module, output in self.outputs]
        self.outputs.clear()
        return taken


def tensors(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    stride = -(-flat.numel() // SAMPLE) or 1
    return flat[::stride].clone()


def plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)
