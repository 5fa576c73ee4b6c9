"""Types of tensors that are made on the device, or moved there with one."""

import ast
from collections.abc import Iterator

from xlaport.analysis.checkpoints import is_host_place
from xlaport.ruleset.api import Context, syntax


def on_device(context: Context, *types: str) -> Iterator[ast.Call]:
    """Live calls that put one of `types` on the device."""
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if puts(context, call, types) and not syntax.is_dead(call):
            yield call


def puts(context: Context, call: ast.Call, types: tuple[str, ...]) -> bool:
    device, dtype = placed(context, call)
    return device is not None and context.refers(dtype, *types) and not is_host_place(device, context.module)


def placed(context: Context, call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """The device and the type that a call names: by keyword, or of `x.to(device, dtype)` by position."""
    func = call.func
    is_to = isinstance(func, ast.Attribute) and func.attr == "to" and not context.names.qualified(func)
    first, second = (0, 1) if is_to else (None, None)
    return syntax.argument(call, "device", first), syntax.argument(call, "dtype", second)
