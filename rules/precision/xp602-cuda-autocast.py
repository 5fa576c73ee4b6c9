"""Every spelling of autocast for CUDA."""

import ast

from xlaport.analysis import devices
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Danger, syntax

CUDA = "torch.cuda.amp.autocast"
WRAPPERS = ("torch_xla.amp.autocast", "torch_xla.amp.autocast_mode.autocast")
GENERAL = ("torch.autocast", "torch.amp.autocast")
PARAMETERS = {
    CUDA: ("enabled", "dtype", "cache_enabled"),
    **{name: ("device", "enabled", "dtype", "cache_enabled") for name in WRAPPERS},
}
HALF = ("torch.float16", "torch.half")
XLA = '"{device_type}"'
MAKER = f"functools.partial(torch.autocast, {XLA}, dtype=torch.bfloat16)"
MESSAGE = "this autocast does nothing to {runtime} tensors"


def check(context: Context):
    named = [node for name in (*PARAMETERS, *GENERAL) for node in context.names.references.get(name, ())]
    calls = {id(node.parent): node.parent for node in named if isinstance(node.parent, ast.Call)}  # of it, or of `partial` with it
    for call in sorted(calls.values(), key=lambda call: (call.lineno, call.col_offset)):
        if not syntax.is_dead(call):
            yield from from_call(context, call)
    for node in context.facts.of(ast.Attribute, ast.Name, ast.Call) if context.names_any(*PARAMETERS) else ():  # `getattr(torch.cuda.amp, "autocast")`
        if context.refers(node, *PARAMETERS) and is_bare(context, node) and not syntax.is_dead(node):
            yield context.finding(node, MESSAGE, context.replace(node, in_place_of_name(node)))


def from_call(context: Context, call: ast.Call):
    func, args = call.func, call.args
    if context.refers(func, "functools.partial") and args:
        func, args = args[0], args[1:]
    if is_second_name(context, func):
        if context.refers(func, CUDA) and call.args:
            yield context.finding(call, MESSAGE, with_keywords(context, call))
        return
    if context.refers(func, *GENERAL):
        yield from for_any_device(context, call, args)
        return
    name = next((name for name in context.names.qualified(func) if name in PARAMETERS), None)
    if name:
        yield context.finding(call, MESSAGE, rebuilt(context, call, args, PARAMETERS[name]))


def is_second_name(context: Context, func: ast.expr) -> bool:
    """A variable of the file: what was assigned to it is edited, not its calls."""
    return isinstance(func, ast.Name) and any(binding.how == "assign" for binding in context.names.bindings(func))


def is_bare(context: Context, node: ast.expr) -> bool:
    """Named without being called."""
    parent = node.parent
    if isinstance(parent, ast.Attribute) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) or is_second_name(context, node):
        return False
    if isinstance(parent, ast.Call):
        is_made = context.refers(parent.func, "functools.partial") and parent.args[:1] == [node]
        return parent.func is not node and not is_made
    return True


def in_place_of_name(node: ast.expr) -> str:
    parent = node.parent
    if node in getattr(parent, "decorator_list", ()):
        return f"torch.autocast({XLA}, dtype=torch.bfloat16)"
    if isinstance(parent, (ast.ClassDef, ast.Compare)) or isinstance(parent, ast.Call) and ast.unparse(parent.func) in {"isinstance", "issubclass"}:
        return "torch.autocast"
    return MAKER


def with_keywords(context: Context, call: ast.Call):
    """`autocast(flag)`, where `autocast` is a variable that held the CUDA class: its `dtype` is given already."""
    holes, pieces = {"func": call.func}, []
    for name, value in arguments(call, call.args, PARAMETERS[CUDA]):
        holes[name] = value
        pieces.append(f"{name}={{{name}}}")
    return context.replace(call, "{func}(" + ", ".join(pieces) + ")", **holes)


def arguments(call: ast.Call, positional: list[ast.expr], parameters: tuple[str, ...]):
    yield from zip(parameters, positional)
    for keyword in call.keywords:
        yield keyword.arg or "", keyword.value


def rebuilt(context: Context, call: ast.Call, positional: list[ast.expr], parameters: tuple[str, ...]):
    if any(isinstance(argument, ast.Starred) for argument in positional):
        return None
    given = dict(arguments(call, positional, parameters))
    pieces, holes = [XLA], {}
    if constant(given.get("enabled")) is not False and ("" not in given or "dtype" in given):
        pieces.append("dtype=" + dtype_piece(context, given.get("dtype"), holes))
    for name in ("enabled", "cache_enabled"):
        if name in given and not (name == "enabled" and constant(given[name]) is True):
            holes[name] = given[name]
            pieces.append(f"{name}={{{name}}}")
    if "" in given:
        holes["rest"] = given[""]
        pieces.append("**{rest}")
    if positional is not call.args:
        holes["func"] = call.func
        return context.replace(call, "{func}(torch.autocast, " + ", ".join(pieces) + ")", **holes)
    return context.replace(call, "torch.autocast(" + ", ".join(pieces) + ")", **holes)


def dtype_piece(context: Context, dtype: ast.expr | None, holes: dict) -> str:
    if dtype is None or is_half(context, dtype):
        return "torch.bfloat16"
    holes["dtype"] = dtype
    return "{dtype}"


def is_half(context: Context, dtype: ast.expr) -> bool:
    """float16 written out; what a variable holds is XP604's."""
    return context.refers(dtype, *HALF) and not context.is_second_name(dtype)


def for_any_device(context: Context, call: ast.Call, positional: list[ast.expr]):
    """`torch.autocast("cuda", ...)`: only the device, and a float16 that is written out, change."""
    given = dict(arguments(call, positional, ("device_type", "dtype", "enabled", "cache_enabled")))
    device = given.get("device_type")
    quote = "'" if device is not None and context.text(device).startswith("'") else '"'
    spelled = devices.spelled(device, context.module, f"{quote}{{device_type}}{quote}") if device is not None else None
    if spelled is None:
        yield from without_dtype(context, call, given)
        return
    ops = context.replace(device, spelled.template, **spelled.holes)
    if lacks_dtype(context, given):
        ops += context.edit_call(call, dtype=context.target.autocast_dtype)
    if "dtype" in given and is_half(context, given["dtype"]):
        ops += context.replace(given["dtype"], "torch.bfloat16")
    yield context.finding(call, MESSAGE, ops)


def without_dtype(context: Context, call: ast.Call, given: dict[str, ast.expr]):
    """`torch.autocast(device.type)`, on a target whose own choice of a type would be float16."""
    device, wanted = given.get("device_type"), context.target.autocast_dtype
    if not context.on_device or not lacks_dtype(context, given):
        return
    if device is not None and (not isinstance(device, ast.Constant) or device.value == context.target.device_type):
        yield context.finding(call, "without a dtype autocast picks float16 on a {runtime}", context.edit_call(call, dtype=wanted), danger=Danger.SILENT)


def lacks_dtype(context: Context, given: dict[str, ast.expr]) -> bool:
    """Is a type to be named, as the target's own choice is not the one wanted?"""
    return bool(context.target.autocast_dtype) and "dtype" not in given and "" not in given and constant(given.get("enabled")) is not False
