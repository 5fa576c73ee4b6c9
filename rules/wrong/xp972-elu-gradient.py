"""ELU and its kin: the backward pass that is right is the one of the in-place form."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Grade

FUNCTIONS = tuple(f"{root}.{name}" for root in ("torch.nn.functional", "torch") for name in ("elu", "celu", "selu"))
MODULES = tuple(f"torch.nn.{name}" for name in ("ELU", "CELU", "SELU"))
FORGETFUL = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm"})
"""Layers whose backward pass needs their input and not what they gave."""


def check(context: Context):
    if not context.on_device:
        return
    for node in context.uses(*FUNCTIONS, *MODULES):
        if not isinstance(node, ast.Call):
            yield context.finding(node)
        elif not is_in_place(node):
            yield of_function(context, node) if context.refers(node.func, *FUNCTIONS) else of_module(context, node)


def is_in_place(call: ast.Call) -> bool:
    flag = next((item.value for item in call.keywords if item.arg in {"inplace", None}), None)
    return flag is not None and constant(flag) is not False or any(constant(part) is True for part in call.args)


def of_function(context: Context, call: ast.Call):
    name = context.names.qualified(call.func)[0]
    takes_flag = name.startswith("torch.nn.functional.")
    if not takes_flag or not call.args or isinstance(call.args[0], ast.Starred):
        return context.finding(call)
    ops = [*context.replace(call.args[0], "{x}.clone()", x=call.args[0]), *context.edit_call(call, inplace="True")]
    return context.finding(call, ops=ops)


def of_module(context: Context, call: ast.Call):
    grade = Grade.SAFE if follows_forgetful_layer(context, call) else Grade.UNSAFE
    return context.finding(call, ops=context.edit_call(call, inplace="True"), grade=grade)


def follows_forgetful_layer(context: Context, call: ast.Call) -> bool:
    layers = call.parent
    if not isinstance(layers, ast.Call) or not context.refers(layers.func, "torch.nn.Sequential") or call not in layers.args:
        return False
    before = layers.args[max(layers.args.index(call) - 1, 0)]
    return isinstance(before, ast.Call) and any(name.startswith("torch.nn.") and name.rpartition(".")[2] in FORGETFUL for name in context.names.qualified(before.func))
