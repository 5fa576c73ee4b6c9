"""What a running program does that its step on a TPU would wait for: reads, operations on the host, shapes from data."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from xlaport.preflight.trace.guard import Found, has_kernel, is_mask, is_on_device, report_printing

READS = ("aten::_local_scalar_dense", "aten::equal")
DYNAMIC = ("aten::nonzero", "aten::masked_select", "aten::_unique2")
COPIES = ("aten::_to_copy", "aten::copy_")


class Watch(TorchDispatchMode):
    """Sees the operations of a step that runs for real, and changes none."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Found()
        report_printing(lambda operator: self.found.add("reads", operator))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(is_on_device(value) for value in tree_leaves((args, kwargs))):
            self.look(func, args, kwargs)
        return func(*args, **kwargs)

    def look(self, func: Any, args: Any, kwargs: Any) -> None:
        name = func._schema.name
        if name in READS or (name in COPIES and leaves_device(name, args, kwargs)):
            self.found.add("reads", name)
        elif name in DYNAMIC:
            self.found.add("dynamic", name)
        elif name == "aten::index" and any(is_mask(index) for index in args[1]):
            self.found.add("dynamic", "aten::index (mask)")
        elif name not in COPIES and not has_kernel(func):
            self.found.add("unlowered", name)


def leaves_device(name: str, args: Any, kwargs: Any) -> bool:
    if name == "aten::copy_":
        return args[0].device.type != "xla"
    return kwargs.get("device") is not None and str(kwargs["device"]).split(":")[0] != "xla"
