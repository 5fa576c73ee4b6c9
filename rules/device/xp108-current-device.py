"""`torch.cuda.current_device()` as a device or as a number; `torch.accelerator.current_accelerator()`."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, syntax

CALLS = ("torch.cuda.current_device", "torch.accelerator.current_device_index", "torch.accelerator.current_accelerator")


def check(context: Context):
    for call in context.calls(*CALLS):
        if not syntax.is_dead(call):
            yield context.finding(call, ops=current(context, call))


def current(context: Context, call: ast.Call):
    attribute = call.parent
    if isinstance(attribute, ast.Attribute) and attribute.attr == "type":
        return [*context.replace(attribute, '"{device_type}"'), *context.ensure("torch_xla")]
    if context.refers(call.func, "torch.accelerator.current_accelerator") or is_place(call):
        lazy = devices.runs_before_workers(call, context.module, context.project)
        return context.replace(call, "{lazy_device}" if lazy else "{device}")
    return context.replace(call, "{local_rank}")


def is_place(call: ast.Call) -> bool:
    """Used where a device is expected: `device=`, `.to(...)`, `.cuda(...)`, `{"device": ...}`, or bound to a name that says so."""
    parent = call.parent
    if isinstance(parent, ast.keyword):
        return parent.arg in {"device", "map_location"}
    if isinstance(parent, ast.Call) and call in parent.args:
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in {"to", "cuda", "device"}
    if isinstance(parent, ast.Dict) and call in parent.values:
        key = parent.keys[parent.values.index(call)]
        return isinstance(key, ast.Constant) and key.value in {"device", "map_location"}
    if isinstance(parent, ast.Assign):
        return any("device" in ast.unparse(target) for target in parent.targets)
    return isinstance(parent, ast.Return)
