"""float64 on the device."""

import ast

from xlaport.ruleset.api import Context, Kind, syntax

DOUBLE = ("torch.float64", "torch.double")


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if puts_on_device(context, call) and not syntax.is_dead(call):
            yield context.finding(call, is_idiom=False)


def puts_on_device(context: Context, call: ast.Call) -> bool:
    func = call.func
    if context.refers(func, "torch.set_default_dtype"):
        return any(context.refers(argument, *DOUBLE) for argument in call.args)
    if isinstance(func, ast.Attribute) and func.attr == "double" and not call.args:
        return Kind.MODULE in context.values.kind(func.value)
    if isinstance(func, ast.Attribute) and func.attr == "to" and not context.names.qualified(func):
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        return len(values) > 1 and any(context.refers(value, *DOUBLE) for value in values)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return "device" in given and context.refers(given.get("dtype"), *DOUBLE) and not is_host(given["device"])


def is_host(device: ast.expr) -> bool:
    return isinstance(device, ast.Constant) and device.value == "cpu"
