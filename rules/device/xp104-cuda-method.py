"""`x.cuda(...)` on tensors and modules."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    for call in context.facts.of(ast.Call):
        func = call.func
        if not (isinstance(func, ast.Attribute) and func.attr == "cuda") or syntax.is_dead(call):
            continue
        if context.names.qualified(func) or has_own_method(context, func.value):
            continue
        yield moved(context, call)


def has_own_method(context: Context, receiver: ast.expr) -> bool:
    """A class of the project that defines `cuda` itself: its definition is what changes."""
    if isinstance(receiver, ast.Call) and ast.unparse(receiver.func) == "super":
        return False
    found = context.values.class_of_instance(receiver)
    return found is not None and any(getattr(member, "name", None) == "cuda" for member in found[0].body)


def moved(context: Context, call: ast.Call):
    place = syntax.argument(call, "device", 0)
    index = devices.composed_index(place, context.module) if place is not None else None
    if devices.means_other_devices(index if index is not None else place, context.module):
        return context.finding(call, "another device than the process's own: on TPU a process drives one device; shard with SPMD")
    kept = place if place is not None and is_device_value(context, place) else None
    template = "{receiver}.to({kept}" if kept is not None else "{receiver}.to({place}"
    holes = {"receiver": call.func.value, **({"kept": kept} if kept is not None else {})}
    blocking = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        if keyword.arg in {"non_blocking", "async"}:
            blocking = keyword.value
    if blocking is not None:
        template += ", non_blocking={blocking}"
        holes["blocking"] = blocking
    return context.finding(call, "moves to a CUDA device", context.replace(call, template + ")", **holes))


def is_device_value(context: Context, place: ast.expr) -> bool:
    """A variable that holds a device, which the port has made an XLA one."""
    if not isinstance(place, (ast.Name, ast.Attribute)):
        return False
    kind = context.values.kind(place)
    return bool(kind & (Kind.DEVICE | Kind.DEVICE_STRING)) and not kind & (Kind.RANK | Kind.INT | Kind.NONE)
