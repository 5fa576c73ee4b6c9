"""`x.is_cuda`, of tensors and parameters."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Danger, syntax


def check(context: Context):
    for node in context.facts.of(ast.Attribute):
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load) or syntax.is_dead(node):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"} or is_called(node):
            continue
        if devices.guards_kernel(node, context.module):
            yield context.finding(node, "guards a kernel for CUDA: False on {runtime}, and the other way is taken", danger=Danger.NONE)
            continue
        is_negated = isinstance(node.parent, ast.UnaryOp) and isinstance(node.parent.op, ast.Not)
        test, sign = (node.parent, "!=") if is_negated else (node, "==")
        ops = context.replace(test, '{x}.device.type ' + sign + ' "{device_type}"', x=node.value)
        yield context.finding(node, "False for every {runtime} tensor", ops)


def is_called(node: ast.Attribute) -> bool:
    return isinstance(node.parent, ast.Call) and node.parent.func is node
