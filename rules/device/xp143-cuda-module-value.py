"""The module `torch.cuda` as a value: in a variable, as an argument, asked for an attribute."""

import ast

from xlaport.ruleset.api import Context, Danger, Severity

MODULES = ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn")


def check(context: Context):
    for node in context.uses(*MODULES):
        call = node.parent
        asked = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if isinstance(node, ast.Call) or asked in {"getattr", "setattr"}:
            continue
        if asked == "hasattr":
            yield context.finding(
                node, "a test for the release of torch, which says nothing about the device",
                danger=Danger.NONE, severity=Severity.NOTE, is_idiom=False,
            )
        else:
            yield context.finding(node, "the CUDA module handed on: most of what is called on it raises without a GPU")
