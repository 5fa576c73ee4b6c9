"""Attention whose operands autocast would have brought to one type on CUDA."""

import ast
import re

from xlaport.ruleset.api import Context, syntax

ATTENTION = ("torch.nn.functional.scaled_dot_product_attention", "torch.nn.functional.scaled_dot_product_attention_")
ROTATES = re.compile(r"rot(ary|ate)|rope", re.IGNORECASE)
"""Tables of a rotation are float32; a norm of bfloat16 stays bfloat16 on XLA."""

AUTOCAST = re.compile(r"\bautocast\b")


def check(context: Context):
    if not context.on_device or not uses_autocast(context):
        return
    for call in context.calls(*ATTENTION):
        if not syntax.is_dead(call) and any(may_differ(context, operand) for operand in call.args[:2]):
            yield context.finding(call, is_idiom=False)


def uses_autocast(context: Context) -> bool:
    project = context.project
    return project.program_mentions(context.module.source.path, AUTOCAST)


def may_differ(context: Context, operand: ast.expr) -> bool:
    """Was the operand last given by a call whose name says that it rotates?"""
    value = operand
    if isinstance(operand, ast.Name):
        given = [b for b in context.names.bindings(operand) if b.how in {"assign", "unpacked"} and b.node.lineno <= operand.lineno]
        value = given[-1].value if given else None
    if not isinstance(value, ast.Call):
        return False
    func = value.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return ROTATES.search(name) is not None
