"""float64 on the device."""

import ast

from xlaport.ruleset.api import Context, Kind, syntax
from xlaport.ruleset.dtypes import on_device

DOUBLE = ("torch.float64", "torch.double")


def check(context: Context):
    if not context.on_device:
        return
    placed = set(on_device(context, *DOUBLE))
    for call in context.facts.of(ast.Call):
        if call in placed or (makes_double(context, call) and not syntax.is_dead(call)):
            yield context.finding(call, is_idiom=False)


def makes_double(context: Context, call: ast.Call) -> bool:
    """float64 as the default type, and modules made double."""
    func = call.func
    if context.refers(func, "torch.set_default_dtype"):
        return any(context.refers(argument, *DOUBLE) for argument in call.args)
    return isinstance(func, ast.Attribute) and func.attr == "double" and not call.args and Kind.MODULE in context.values.kind(func.value)
