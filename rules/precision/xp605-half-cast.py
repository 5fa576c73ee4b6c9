"""`.half()` of modules and tensors."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Danger, Kind, syntax

FLOATING = Kind.TENSOR | Kind.MODULE


def check(context: Context):
    if not context.on_device:
        return
    danger = Danger.SILENT if context.training.steps else Danger.SLOW
    for call in context.facts.of(ast.Call):
        if is_cast(context, call) and not is_chosen_by_name(context, call) and not syntax.is_dead(call):
            yield context.finding(call, ops=context.replace(call, "{receiver}.bfloat16()", receiver=call.func.value), danger=danger)


def is_cast(context: Context, call: ast.Call) -> bool:
    func = call.func
    if not (isinstance(func, ast.Attribute) and func.attr == "half") or call.args or call.keywords or context.names.qualified(func):
        return False
    kind = context.values.kind(func.value)
    return not kind or bool(kind & FLOATING)


def is_chosen_by_name(context: Context, call: ast.Call) -> bool:
    """In a choice by name (`== "fp16"`) that offers bfloat16 as well."""
    return any(
        isinstance(parent, ast.If) and "bfloat16" in context.text(parent)
        and any(isinstance(constant(part), str) for part in ast.walk(parent.test))
        for parent in syntax.ancestors(call)
    )
