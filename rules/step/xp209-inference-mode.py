"""`torch.inference_mode`, inside which torch_xla makes no views."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

NAMES = ("torch.inference_mode", "torch.autograd.inference_mode", "torch.autograd.grad_mode.inference_mode")
MESSAGE = "views of tensors raise on XLA in inference_mode, and most layers make some"


def check(context: Context):
    if not context.on_device:
        return
    for name, node in context.named_below("torch"):
        call = node.parent if syntax.is_called(node) else None
        if name in NAMES and isinstance(node, (ast.Name, ast.Attribute)) and not context.is_second_name(node) and not is_off(call):
            yield context.finding(node, MESSAGE, in_place(context, node, call), is_idiom=False)


def mode(call: ast.Call | None) -> ast.expr | None:
    """The argument that says whether gradients are off; left out, they are."""
    return syntax.argument(call, "mode", 0) if call is not None else None


def is_off(call: ast.Call | None) -> bool:
    return mode(call) is not None and constant(mode(call)) is False


def in_place(context: Context, node: ast.expr, call: ast.Call | None):
    asked = mode(call)
    if call is None:
        is_decorator = isinstance(node.parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and node in node.parent.decorator_list
        return context.replace(node, "torch.no_grad()" if is_decorator else "torch.no_grad")
    if asked is None or constant(asked) is True:
        return context.replace(call, "torch.no_grad()")
    return context.replace(call, "torch.set_grad_enabled(not ({asked}))", asked=asked)
