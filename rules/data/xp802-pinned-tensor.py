"""Tensors in pinned memory."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls_of_method("pin_memory"):
        if is_tensor(context, call) and not in_hook(call):
            unchanged = isinstance(call.parent, ast.Expr)
            ops = context.remove(call.parent) if unchanged else context.replace(call, "{receiver}", receiver=call.func.value)
            yield context.finding(call, ops=ops)
    for call in context.facts.of(ast.Call):
        option = next((keyword for keyword in call.keywords if keyword.arg == "pin_memory"), None)
        if option and constant(option.value) is not False and is_factory(context, call) and not syntax.is_dead(call):
            yield context.finding(option.value, ops=context.edit_call(call, remove=["pin_memory"]))


def is_tensor(context: Context, call: ast.Call) -> bool:
    if len(call.args) + len(call.keywords) > 1 or context.names.qualified(call.func):
        return False
    kind = context.values.kind(call.func.value)
    return not kind or Kind.TENSOR in kind


def in_hook(call: ast.Call) -> bool:
    """In the `pin_memory` method a loader calls on batches it pins."""
    function = syntax.enclosing_function(call)
    return getattr(function, "name", "") == "pin_memory"


def is_factory(context: Context, call: ast.Call) -> bool:
    names = context.names.qualified(call.func)
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_") and not names:
        return True
    return any(name.startswith("torch.") and not name.startswith("torch.utils.") for name in names)
