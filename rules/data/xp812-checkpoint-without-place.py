"""`torch.load` that restores tensors to the device they were saved from."""

import ast

from xlaport.analysis import checkpoints, devices
from xlaport.analysis.project import DEVICE_WORDS
from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    if not context.on_device or not context.project.mentions(context.module.source.path, DEVICE_WORDS):
        return
    for call in context.calls("torch.load"):
        if not is_without_place(call) or syntax.is_dead(call):
            continue
        uses = list(checkpoints.uses_of_loaded(call, context.module))
        if checkpoints.is_checkpoint(call, uses):
            yield finding_for(context, call, uses)


def is_without_place(call: ast.Call) -> bool:
    names = [keyword.arg for keyword in call.keywords]
    if None in names or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    place = next((k.value for k in call.keywords if k.arg == "map_location"), call.args[1] if len(call.args) > 1 else None)
    return place is None or isinstance(place, ast.Constant) and place.value is None


def finding_for(context: Context, call: ast.Call, uses: list[ast.expr]):
    ops = context.edit_call(call, positions=[1] if len(call.args) > 1 else [], map_location='"cpu"')
    if not checkpoints.is_unmoved_module(uses):
        return context.finding(call, ops=ops)
    before = devices.runs_before_workers(call, context.module, context.project)
    ops += context.wrap(call, "{call}.to({lazy_device})" if before else "{call}.to({device})")
    return context.finding(call, "a module comes back to the device it was saved from: it is read to the host, then moved", ops)
