"""`torch.compile` with a backend that has no XLA."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax

COMPILE = "torch.compile"
OLD = ("torch._dynamo.optimize", "torch._dynamo.eval_frame.optimize")
FOR_GPU = (None, "inductor", "cudagraphs", "tensorrt", "torch_tensorrt", "onnxrt", "nvfuser", "aot_ts_nvfuser")
WITHOUT_MEANING = ("mode", "options")
"""Arguments of Inductor."""

OPTIONS = frozenset({"mode", "options", "fullgraph", "dynamic", "backend", "disable"})


def check(context: Context):
    if not context.on_device:
        return
    for node in context.uses(COMPILE):
        if isinstance(node, ast.Call):
            yield from in_call(context, node)
        elif context.refers(getattr(node.parent, "func", None), "functools.partial"):
            yield from in_call(context, node.parent)
        elif not isinstance(node.parent, ast.Compare):
            yield context.finding(node, ops=in_place_of_name(context, node))
    for call in context.calls(*OLD):
        if not syntax.is_dead(call) and call.args and constant(call.args[0]) in FOR_GPU[1:]:
            yield context.finding(call, ops=context.replace(call.args[0], written(context)))
    for call in context.calls_of_method("compile"):
        if is_module(context, call):
            yield from in_call(context, call)


def in_call(context: Context, call: ast.Call):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    backend = given.get("backend")
    is_other = isinstance(backend, ast.Constant) and backend.value not in FOR_GPU
    if constant(given.get("disable")) is True or is_other and backend.value != context.target.compile_backend:
        return
    extra = [name for name in WITHOUT_MEANING if name in given]
    if is_other and not extra:
        return
    if None in given and backend is None:
        yield context.finding(call, f"the options come from elsewhere: let them say backend={written(context)}")
        return
    yield context.finding(call, ops=context.edit_call(call, remove=extra, backend=written(context)))


def in_place_of_name(context: Context, node: ast.expr):
    if node in getattr(node.parent, "decorator_list", ()):
        return context.replace(node, f"torch.compile(backend={written(context)})")
    return context.replace(node, f"functools.partial(torch.compile, backend={written(context)})")


def written(context: Context) -> str:
    return f'"{context.target.compile_backend}"'


def is_module(context: Context, call: ast.Call) -> bool:
    """`module.compile(...)` with arguments of torch.compile only."""
    if call.args or context.names.qualified(call.func) or not {keyword.arg for keyword in call.keywords} <= OPTIONS:
        return False
    return Kind.MODULE in context.values.guess(call.func.value)


def check_torchtpu(context: Context):
    """Stripped: other backends, `dynamic=True`, modes but the default one, options of Inductor."""
    if not context.on_device:
        return
    for node in context.uses(COMPILE):
        if isinstance(node, ast.Call):
            yield from stripped(context, node)
        elif context.refers(getattr(node.parent, "func", None), "functools.partial"):
            yield from stripped(context, node.parent)
    for call in context.calls_of_method("compile"):
        if is_module(context, call):
            yield from stripped(context, call)


def stripped(context: Context, call: ast.Call):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if constant(given.get("disable")) is True:
        return
    backend, names = constant(given.get("backend")), []
    if backend in context.target.compile_raises:
        names.append("backend")
    elif "backend" in given and isinstance(backend, str) and backend != "tpu":
        return  # `eager` and `aot_eager` compile nothing
    if "dynamic" in given and constant(given["dynamic"]) is not False and not is_none(given["dynamic"]):
        names.append("dynamic")
    if "mode" in given and constant(given["mode"]) != "default" and not is_none(given["mode"]):
        names.append("mode")
    if "options" in given and backend != "tpu":
        names.append("options")
    if names:
        yield context.finding(call, f"raises for tensors of a TPU: {', '.join(names)}", context.edit_call(call, remove=names))


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
