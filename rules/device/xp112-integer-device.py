"""A bare integer as a device: `.to(rank)`, `torch.zeros(n, device=0)`."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    if not context.project.on_device(context.module.source.path):
        return
    for call in context.facts.of(ast.Call):
        argument = device_argument(context, call)
        if argument is None or syntax.is_dead(call) or not devices.is_integer_device(argument, context.module):
            continue
        if devices.means_other_devices(argument, context.module):
            yield context.finding(argument, "another device than the process's own: on TPU a process drives one device; shard with SPMD")
            continue
        yield context.finding(argument, "an integer names a CUDA device", context.replace(argument, "{device}"))


def device_argument(context: Context, call: ast.Call) -> ast.expr | None:
    func = call.func
    is_to = isinstance(func, ast.Attribute) and func.attr == "to" and not context.names.qualified(func)
    if is_to and len(call.args) >= 1 and is_moved(context, func.value):
        return call.args[0]
    if is_to or any(name.startswith("torch.") and not name.startswith("torch.cuda") for name in context.names.qualified(func)):
        return next((k.value for k in call.keywords if k.arg == "device"), None)
    return None


def is_moved(context: Context, receiver: ast.expr) -> bool:
    """Something `.to` moves: not a path, a converter or a unit of another library."""
    kind = context.values.guess(receiver)
    return not kind or bool(kind & (Kind.TENSOR | Kind.MODULE))
