"""A bare integer as a device: `.to(rank)`, `torch.zeros(n, device=0)`."""

import ast

from xlaport.analysis import devices
from xlaport.analysis.values import guess_by_name
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    if not context.on_device:
        return
    defined: set[ast.expr] = set()
    for call in context.facts.of(ast.Call):
        argument = device_argument(context, call)
        if argument is None or syntax.is_dead(call) or not devices.is_integer_device(argument, context.module):
            continue
        value = definition(context, argument)
        if value is not None:
            if value not in defined:
                defined.add(value)
                yield context.finding(value, "an integer names a CUDA device", context.replace(value, "{device}"))
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


def definition(context: Context, argument: ast.expr) -> ast.expr | None:
    """The value of `device = rank % n` when every use of the variable is a device: then the definition changes."""
    if not isinstance(argument, ast.Name) or Kind.DEVICE not in guess_by_name(argument.id):
        return None
    bindings = context.names.bindings(argument)
    if len(bindings) != 1 or bindings[0].how != "assign":
        return None
    scope = syntax.enclosing_scope(bindings[0].node)
    uses = [n for n in context.facts.of(ast.Name) if n.id == argument.id and isinstance(n.ctx, ast.Load) and syntax.enclosing_scope(n) is scope]
    return bindings[0].value if all(is_device_use(context, use) for use in uses) else None


def is_device_use(context: Context, use: ast.Name) -> bool:
    parent = use.parent
    if isinstance(parent, ast.keyword):
        return parent.arg in {"device", "map_location"}
    if isinstance(parent, ast.FormattedValue):
        return True
    return isinstance(parent, ast.Call) and (
        device_argument(context, parent) is use
        or context.refers(parent.func, "torch.cuda.set_device", "torch.device")
        or isinstance(parent.func, ast.Attribute) and parent.func.attr == "cuda"
    )


def is_moved(context: Context, receiver: ast.expr) -> bool:
    """Something `.to` moves: not a path, a converter or a unit of another library."""
    kind = context.values.guess(receiver)
    return not kind or bool(kind & (Kind.TENSOR | Kind.MODULE))
