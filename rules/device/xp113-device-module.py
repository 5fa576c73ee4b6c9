"""`torch.get_device_module(d)`, `getattr(torch, device.type)`: there is no `torch.xla`."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    for call in context.calls("torch.get_device_module"):
        if not syntax.is_dead(call):
            yield context.finding(call)
    for call in context.values.calls_by_last_name.get("getattr", ()):
        if isinstance(call.func, ast.Name) and len(call.args) >= 2 and not syntax.is_dead(call):
            if context.refers(call.args[0], "torch") and names_device(context, call.args[1]):
                yield context.finding(call)


def names_device(context: Context, node: ast.expr) -> bool:
    if constant(node) == "cuda":
        return True
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return Kind.DEVICE in context.values.guess(node.value)
    return "device" in ast.unparse(node)
