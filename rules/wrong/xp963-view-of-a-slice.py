"""`.view` where the strides of a transposed operand survive."""

import ast

from xlaport.analysis.values import reaching
from xlaport.ruleset.api import Context

TRANSPOSES = frozenset({"t", "transpose", "permute", "swapaxes", "movedim"})
KEEP_STRIDES = frozenset({
    "eq", "ne", "gt", "ge", "lt", "le", "float", "double", "long", "int", "half", "bool", "byte", "to", "type", "add", "sub", "mul", "div",
    "abs", "exp", "log", "clamp", "detach", "clone",
})
FOLLOWED = 5
"""Assignments a value is followed through."""


def check(context: Context):
    for call in context.calls_of_method("view"):
        receiver = call.func.value
        if isinstance(receiver, ast.Subscript) and isinstance(receiver.slice, ast.Slice) and not is_written(call):
            if is_elementwise(context, receiver.value, 0):
                ops = context.replace(call.func, "{receiver}.reshape", receiver=receiver)
                yield context.finding(call, ops=ops, is_idiom=False)


def is_written(call: ast.Call) -> bool:
    """`x[:k].view(-1).zero_()`: a copy would be written instead."""
    parent = call.parent
    return isinstance(parent, ast.Attribute) and parent.attr.endswith("_") or isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)


def is_elementwise(context: Context, node: ast.expr, depth: int) -> bool:
    """Computed element by element from a transposed tensor."""
    if isinstance(node, ast.Compare):
        return is_transposed(context, node.left, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEP_STRIDES:
        return is_transposed(context, node.func.value, depth)
    return any(is_elementwise(context, value, depth + 1) for value in values_of(context, node, depth))


def is_transposed(context: Context, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in {"T", "mT"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in TRANSPOSES:
            return True
        return node.func.attr in KEEP_STRIDES and is_transposed(context, node.func.value, depth)
    return any(is_transposed(context, value, depth + 1) for value in values_of(context, node, depth))


def values_of(context: Context, node: ast.expr, depth: int) -> list[ast.expr]:
    """What a variable was assigned before."""
    if not isinstance(node, ast.Name) or depth > FOLLOWED:
        return []
    bindings = reaching(context.names.bindings(node), node)
    return [b.value for b in bindings if b.how == "assign" and b.value is not None and b.node.lineno <= node.lineno]
