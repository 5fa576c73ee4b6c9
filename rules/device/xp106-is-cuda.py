"""`x.is_cuda`, of tensors and parameters."""

import ast

from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    for node in context.facts.of(ast.Attribute):
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load) or syntax.is_dead(node):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"} or is_called(node):
            continue
        yield context.finding(node, "False for every XLA tensor", context.replace(node, '{x}.device.type == "{device_type}"', x=node.value))


def is_called(node: ast.Attribute) -> bool:
    return isinstance(node.parent, ast.Call) and node.parent.func is node
