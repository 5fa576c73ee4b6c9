"""`map_location` in every form but the host's name."""

import ast

from xlaport.analysis import checkpoints, devices
from xlaport.analysis.values import PLACE, constant
from xlaport.ruleset.api import Context, syntax

READERS = {
    "torch.load": 1, "torch.jit.load": 1, "torch.hub.load_state_dict_from_url": 2, "torch.utils.model_zoo.load_url": 2,
}
"""Functions of torch that read a file, and where they take the place."""

LEFT_ON_HOST = "read to the host: what is not given to load_state_dict needs .to(device) before it is used"


def check(context: Context):
    if not context.on_device:
        return
    wanted = {*context.names.calls(*READERS), *context.calls_with_keyword("map_location")}
    for call in context.facts.of(ast.Call) if wanted else ():
        if call in wanted and not syntax.is_dead(call):
            yield from in_call(context, call)


def in_call(context: Context, call: ast.Call):
    position = next((READERS[name] for name in context.names.qualified(call.func) if name in READERS), None)
    keyword = syntax.argument(call, "map_location")
    if keyword is not None:
        if constant(keyword) is None and isinstance(keyword, ast.Constant) or checkpoints.is_host_place(keyword, context.module):
            return
        if position is None and not names_device(context, keyword):
            return
        ops = context.replace(keyword, '"cpu"') + moved(context, call, keyword)
        yield context.finding(keyword, message_for(context, call), ops)
    elif position is not None and len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args):
        place = call.args[position]
        if not (isinstance(place, ast.Constant) and place.value is None or checkpoints.is_host_place(place, context.module)):
            ops = context.edit_call(call, positions=[position], map_location='"cpu"') + moved(context, call, place)
            yield context.finding(place, message_for(context, call), ops)


def names_device(context: Context, node: ast.expr) -> bool:
    """In a call of a function that is not torch's: only what surely is a device, or makes one."""
    if isinstance(node, (ast.Lambda, ast.Dict)):
        return "cuda" in context.text(node)
    if devices.spelled(node, context.module, "") is not None or context.values.kind(node) & PLACE:
        return not (isinstance(node, ast.Constant) and node.value == "cpu")
    return bool(context.values.guess(node) & PLACE)


def moved(context: Context, call: ast.Call, place: ast.expr):
    """`.to(device)` for a whole module that ran wherever the file put it."""
    uses = list(checkpoints.uses_of_loaded(call, context.module))
    if context.refers(call.func, "torch.jit.load"):
        if any(map(checkpoints.is_moved, uses)):
            return []
    elif not context.refers(call.func, "torch.load") or not checkpoints.is_unmoved_module(uses):
        return []
    is_variable = isinstance(place, (ast.Name, ast.Attribute)) and bool(context.values.guess(place) & PLACE)
    before = devices.runs_before_workers(call, context.module, context.project)
    device = context.text(place) if is_variable else "{lazy_device}" if before else "{device}"
    return context.wrap(call, "{call}.to(" + device + ")")


def message_for(context: Context, call: ast.Call) -> str:
    uses = list(checkpoints.uses_of_loaded(call, context.module))
    plain = all(isinstance(use.parent, (ast.Subscript, ast.Compare)) or given_to_module(use) or iterated(use) for use in uses)
    return context.rule.summary if plain and uses else LEFT_ON_HOST


def given_to_module(use: ast.expr) -> bool:
    call = use.parent
    return isinstance(call, ast.Call) and use is not call.func and "load" in ast.unparse(call.func)


def iterated(use: ast.expr) -> bool:
    """`checkpoint.items()`, `checkpoint.get("model")`: a dictionary."""
    return isinstance(use.parent, ast.Attribute) and use.parent.attr in {"items", "keys", "values", "get", "pop"}
