"""Collectives over a gloo group, of tensors that are on the device."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.values import reaching
from xlaport.ruleset.api import Context, Mode, syntax

FACTORIES = ("torch.tensor", "torch.zeros", "torch.ones", "torch.empty", "torch.full", "torch.as_tensor", "torch.from_numpy", "torch.arange")


def check(context: Context):
    if not context.on_device or context.mode is Mode.SPMD:
        return  # XP723 speaks of sharded programs
    for call in context.calls(*collectives.TENSORS):
        position = collectives.TENSORS[next(name for name in context.names.qualified(call.func) if name in collectives.TENSORS)]
        tensor = syntax.argument(call, "tensor", position)
        if tensor is None or syntax.is_dead(call) or not collectives.is_gloo(syntax.argument(call, "group"), context.module):
            continue
        if not is_on_host(context, tensor):
            yield context.finding(call)


def is_on_host(context: Context, node: ast.expr) -> bool:
    """`x.cpu()`, or a tensor that is made without a device; a name that was given one."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cpu":
            return True
        return context.refers(node.func, *FACTORIES) and not any(keyword.arg == "device" for keyword in node.keywords)
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in reaching(context.names.bindings(node), node)]
    return bool(values) and all(value is not None and is_on_host(context, value) for value in values)
