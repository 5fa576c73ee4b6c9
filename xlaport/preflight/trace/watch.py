"""What a running program does that its step on a TPU would wait for: reads, operations on the host, shapes from data."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from xlaport.preflight.trace.guard import Found, is_on_device, off_device, report_printing


class Watch(TorchDispatchMode):
    """Sees the operations of a step that runs for real, and changes none."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Found()
        report_printing(lambda operator: self.found.add("reads", operator))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(is_on_device(value) for value in tree_leaves((args, kwargs))):
            site = off_device(func, args, kwargs)
            if site:
                self.found.add(*site)
        return func(*args, **kwargs)
