"""Autograd functions in the style of torch 0.1."""

import ast

from xlaport.analysis.values import last_name
from xlaport.ruleset.api import Context, syntax

BASES = ("torch.autograd.Function", "torch.autograd.function.Function")


def check(context: Context):
    for cls in context.facts.of(ast.ClassDef):
        if not any(context.refers(base, *BASES) for base in cls.bases) or syntax.is_dead(cls):
            continue
        forward = next((member for member in cls.body if getattr(member, "name", "") == "forward"), None)
        if isinstance(forward, ast.FunctionDef) and not any(last_name(d) in {"staticmethod", "classmethod"} for d in decorators(forward)):
            if forward.args.args and forward.args.args[0].arg == "self":
                yield context.finding(forward, is_idiom=False)


def decorators(function: ast.FunctionDef):
    return (decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in function.decorator_list)
