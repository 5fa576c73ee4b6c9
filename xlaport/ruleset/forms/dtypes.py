"""Types of tensors that are made on the device, or moved there with one."""

import ast
from collections.abc import Iterator

from xlaport.ruleset.api import Context, Kind, syntax


def on_device(context: Context, types: tuple[str, ...], method: str) -> Iterator[ast.Call]:
    """Live calls that put one of `types` on the device: `method` is the one that makes a module of them."""
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if puts(context, call, types, method) and not syntax.is_dead(call):
            yield call


def puts(context: Context, call: ast.Call, types: tuple[str, ...], method: str) -> bool:
    func = call.func
    if context.refers(func, "torch.set_default_dtype"):
        return any(context.refers(argument, *types) for argument in call.args)
    if isinstance(func, ast.Attribute) and func.attr == method and not call.args:
        return Kind.MODULE in context.values.kind(func.value)
    if isinstance(func, ast.Attribute) and func.attr == "to" and not context.names.qualified(func):
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        return len(values) > 1 and any(context.refers(value, *types) for value in values)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return "device" in given and context.refers(given.get("dtype"), *types) and not is_host(given["device"])


def is_host(device: ast.expr) -> bool:
    return isinstance(device, ast.Constant) and device.value == "cpu"
