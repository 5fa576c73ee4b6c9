"""A bare integer as a device: `.to(rank)`, `torch.zeros(n, device=0)`."""

import ast
import re

from xlaport.analysis import devices
from xlaport.analysis.values import guess_by_name, last_name
from xlaport.ruleset.api import Context, Kind, syntax


OPTIONS = re.compile(r"arg|opt|param|config|cfg|conf$|flag|setting|namespace|^self$", re.IGNORECASE)
"""Whose attribute `device` may be a number; of anything else it is a tensor's or module's place."""


def check(context: Context):
    if not context.on_device:
        return
    defined: set[ast.expr] = set()
    for call in dict.fromkeys([*context.calls_of_method("to"), *context.calls_with_keyword("device")]):
        argument = possible_argument(context, call)
        if argument is None or is_place(context, argument) or syntax.is_dead(call) or not devices.is_integer_device(argument, context.module):
            continue
        if argument is not device_argument(context, call):
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
    argument = possible_argument(context, call)
    return argument if argument not in call.args[:1] or is_moved(context, call.func.value) else None


def possible_argument(context: Context, call: ast.Call) -> ast.expr | None:
    """The argument by the form of the call alone: what is moved takes more to tell than what it is moved to."""
    func = call.func
    is_to = isinstance(func, ast.Attribute) and func.attr == "to"
    if not call.keywords and not (is_to and call.args) or is_to and context.names.qualified(func):
        return None
    if is_to and call.args:
        return call.args[0]
    if is_to or any(name.startswith("torch.") and not name.startswith("torch.cuda") for name in context.names.qualified(func)):
        return syntax.argument(call, "device")
    return None


def is_place(context: Context, argument: ast.expr) -> bool:
    """`x.device`, where `x` does not look like options: to tell what it is may take many other files."""
    if not isinstance(argument, ast.Attribute) or argument.attr != "device" or OPTIONS.search(last_name(argument.value)):
        return False
    bindings = context.names.bindings(argument.value) if isinstance(argument.value, ast.Name) else ()
    return not any(isinstance(binding.value, ast.Call) and OPTIONS.search(last_name(binding.value.func)) for binding in bindings)


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
