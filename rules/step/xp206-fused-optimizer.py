"""Optimizer implementations that exist for CUDA only: `fused=True`, `capturable=True`, `foreach=True` where it raises."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax

FLAGS = ("fused", "capturable")


def check(context: Context):
    for call in context.facts.of(ast.Call):
        if syntax.is_dead(call) or not any(keyword.arg in {*FLAGS, "foreach"} for keyword in call.keywords):
            continue
        if context.refers(call.func, "torch.nn.utils.clip_grad_norm_"):
            yield from switched_off(context, call, ("foreach",), remove=True)
        elif Kind.OPTIMIZER in context.values.kind(call) and not is_method(call):
            yield from switched_off(context, call, FLAGS, remove=True)
        elif isinstance(call.func, ast.Name) and call.func.id == "dict":
            yield from switched_off(context, call, ("fused",), remove=False)
    yield from in_displays(context)


def is_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "self"


def switched_off(context: Context, call: ast.Call, flags: tuple[str, ...], remove: bool):
    found = [k for k in call.keywords if k.arg in flags and constant(k.value) not in (False, None, ...) or k.arg in flags and not isinstance(k.value, ast.Constant)]
    for keyword in found:
        literal = isinstance(keyword.value, ast.Constant)
        if remove and literal:
            ops = context.edit_call(call, remove=[keyword.arg])
        else:
            ops = context.edit_call(call, **{keyword.arg: "False"})
        yield context.finding(keyword.value, f"{keyword.arg} is for CUDA: the first step on XLA raises", ops)


def in_displays(context: Context):
    """`{"fused": True}` that is unpacked into an optimizer."""
    for display in context.facts.of(ast.Dict):
        for key, value in zip(display.keys, display.values):
            if constant(key) == "fused" and constant(value) is True and not syntax.is_dead(display):
                yield context.finding(value, "fused is for CUDA: the first step on XLA raises", context.replace(value, "False"))
