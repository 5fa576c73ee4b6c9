"""CUDA devices as objects: `torch.device("cuda")`, `.to("cuda")`, `torch.zeros(n, device="cuda:0")`."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Kind, syntax

OTHER_DEVICE = "another device than the process's own: on TPU a process drives one device; split the model with {sharding}"
HANDLED_ELSEWHERE = ("torch.Generator", "torch.load", "torch.amp.", "torch.autocast", "torch.random.fork_rng", "torch.cuda.")
FACTORIES = ("torch.", "torchvision.", "transformers.", "timm.")


def check(context: Context):
    for call in context.calls("torch.device"):
        if not syntax.is_dead(call):
            yield from from_constructor(context, call)
    for call in dict.fromkeys([*context.calls_of_method("to", "to_empty"), *context.calls_with_keyword("device")]):
        if not syntax.is_dead(call):
            for place in device_arguments(context, call):
                yield from from_argument(context, place)


def device_template(context: Context, node: ast.AST, word: str = "{device}") -> str:
    """The device itself, or its lazy form in code that runs before workers are started."""
    before = devices.runs_before_workers(node, context.module, context.project)
    return "{lazy_device}" if before else word


def from_constructor(context: Context, call: ast.Call):
    argument = syntax.argument(call, "type", 0)
    if argument is None:
        return
    device = device_template(context, call)
    found = devices.spelled(argument, context.module, device)
    if found is None and devices.is_integer_device(argument, context.module):
        found = devices.Spelled(device, index=argument)
    if found is None:
        return
    index = call.args[1] if len(call.args) > 1 else found.index
    if devices.means_other_devices(index, context.module):
        yield context.finding(call, OTHER_DEVICE)
        return
    template, holes = in_device_objects(context, call, found, argument)
    yield context.finding(call, "a CUDA device", context.replace(call, template, **holes))


def in_device_objects(context: Context, call: ast.Call, found: devices.Spelled, argument: ast.expr):
    """`torch.device("cuda" if flag else "cpu")`: the side that stays a string keeps its `torch.device(...)`."""
    template, holes = found.template, found.holes
    if isinstance(argument, ast.IfExp):
        for name, part in list(holes.items()):
            if part in (argument.body, argument.orelse) and Kind.DEVICE not in context.values.kind(part):
                template = template.replace("{%s}" % name, "{func}({%s})" % name)
                holes["func"] = call.func
    return template, holes


def device_arguments(context: Context, call: ast.Call):
    """Arguments that are a device: the first of `.to`, and `device=` of torch's own functions."""
    func = call.func
    is_to = isinstance(func, ast.Attribute) and func.attr in {"to", "to_empty"} and not context.names.qualified(func)
    if is_to and call.args:
        yield call.args[0]
    for keyword in call.keywords:
        if keyword.arg == "device" and (is_to or takes_device(context, func)) and not context.refers(func, "torch.device"):
            yield keyword.value


def takes_device(context: Context, func: ast.expr) -> bool:
    names = context.names.qualified(func)
    if any(name.startswith(HANDLED_ELSEWHERE) for name in names):
        return False
    return any(name.startswith(FACTORIES) for name in names) or (
        isinstance(func, ast.Attribute) and func.attr.startswith("new_")
    )


def from_argument(context: Context, argument: ast.expr):
    device = device_template(context, argument, "{place}")
    found = devices.spelled(argument, context.module, device)
    if found is None:
        return
    if devices.means_other_devices(found.index, context.module):
        yield context.finding(argument, OTHER_DEVICE)
        return
    yield context.finding(argument, "a CUDA device", context.replace(argument, found.template, **found.holes))
