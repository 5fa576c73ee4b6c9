"""Where CUDA is carried to, and the count of what was."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from xlaport.runtime.job import LEFT_OUT, REPLICAS


class CannotCarry(RuntimeError):
    """Asked for something that only CUDA has."""


@dataclass
class Carrier:
    """`device` is the torch device; `kind` its type, "cpu" or "xla"; `index` the number the program has given it."""

    kind: str
    device: torch.device
    counts: Counter = field(default_factory=Counter)
    index: int = 0

    @classmethod
    def to(cls, kind: str) -> Carrier:
        if kind == "xla":
            import torch_xla

            torch.__future__.set_swap_module_params_on_conversion(True)
            return cls(kind, torch_xla.device())
        return cls(kind, torch.device(kind))

    @property
    def replicas(self) -> int:
        return int(os.environ.get(REPLICAS, "1"))

    def note(self, what: str) -> None:
        self.counts[what] += 1

    def leave_out(self, what: str) -> None:
        self.counts[LEFT_OUT + what] += 1

    def synchronize(self) -> None:
        if self.kind == "xla":
            import torch_xla

            torch_xla.sync(wait=True)

    def end_step(self) -> None:
        import torch_xla

        torch_xla.sync()

    @property
    def shown(self) -> torch.device:
        """The device as the program sees it."""
        return torch.device("cuda", self.index)

    def names_cuda(self, value: Any) -> bool:
        """Whether a value names a CUDA device: a string, or a torch.device."""
        if isinstance(value, str):
            return value == "cuda" or value.startswith("cuda:")
        return isinstance(value, torch.device) and value.type == "cuda"

    def place(self, value: Any) -> Any:
        """The carried device for a value that names a CUDA one, as integers do; any other value as it is."""
        return self.device if self.names_cuda(value) or type(value) is int else value

    def type_for(self, device_type: str) -> str:
        """The type of device for one that the program names: CUDA's is the carried one's."""
        return self.kind if device_type == "cuda" else device_type
