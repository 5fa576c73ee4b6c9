"""`torch.Generator(device="cuda")`: XLA has no generator object in 2.9."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    for call in context.calls("torch.Generator"):
        place = syntax.argument(call, "device", 0)
        if place is None or syntax.is_dead(call) or not on_device(context, place):
            continue
        positions = [0] if call.args else []
        ops = context.edit_call(call, remove=["device"], positions=positions)
        yield context.finding(call, "XLA has no generator objects: draws come from a host generator; pass device= to the draw", ops)


def on_device(context: Context, place: ast.expr) -> bool:
    if devices.spelled(place, context.module, "{device}") is not None:
        return True
    return Kind.DEVICE in context.values.guess(place) and not isinstance(place, ast.Constant)


def check_torchtpu(context: Context):
    for call in context.calls("torch.Generator"):
        place = syntax.argument(call, "device", 0)
        found = devices.spelled(place, context.module, "{place}") if place is not None else None
        if found is not None and not syntax.is_dead(call):
            yield context.finding(place, ops=context.replace(place, found.template, **found.holes))
