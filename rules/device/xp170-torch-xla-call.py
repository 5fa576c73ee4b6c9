"""Functions of torch_xla that have a form of one line on another target."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset import host_copies
from xlaport.ruleset.api import Context, syntax

XM, XR = "torch_xla.core.xla_model.", "torch_xla.runtime."
SEVERAL = re.compile(r"init_process_group\(|\blaunch\(|\bspawn\(|DistributedDataParallel|fully_shard")
REDUCED = re.compile(r"DistributedDataParallel|\bDDP\(|fully_shard")
SPEAKING = {
    **dict.fromkeys((XM + "xla_device", "torch_xla.device"), "{device}"),
    **dict.fromkeys((XM + "xla_device_kind", XM + "xla_real_devices"), "{device_name}"),
    XM + "wait_device_ops": "{sync_wait}",
    **dict.fromkeys(("torch_xla.device_count", XR + "local_device_count", XR + "addressable_device_count"), "{device_count}"),
}
RANKS = {
    **dict.fromkeys((XM + "get_ordinal", XR + "global_ordinal"), ("{rank}", "0")),
    **dict.fromkeys((XM + "get_local_ordinal", XR + "local_ordinal"), ('int(os.environ["LOCAL_RANK"])', "0")),
    **dict.fromkeys((XM + "xrt_world_size", XR + "world_size"), ("{world_size}", "1")),
    **dict.fromkeys((XR + "global_device_count", XR + "global_runtime_device_count"), ("{world_size}", "{device_count}")),
    XM + "is_master_ordinal": ("{rank} == 0", "True"),
}
"""Name -> the form with a process group, and in a program of one process."""

ENDS = (XM + "mark_step", "torch_xla.sync", "torch_xla.step", "torch_xla.experimental.eager_mode")
SEEDS = ("torch_xla.manual_seed", XM + "set_rng_state")
RENAMED = {
    "torch_xla.compile": "torch.compile",
    "torch_xla.backends.set_mat_mul_precision": "torch.set_float32_matmul_precision",
    "torch_xla.debug.profiler.Trace": "torch.profiler.record_function",
    **{f"torch_xla.amp.syncfree.{name}": f"torch.optim.{name}" for name in ("Adam", "AdamW", "SGD")},
}
STARTS = ("torch_xla.launch", "torch_xla.distributed.xla_multiprocessing.spawn")
SPAWN = "torch.multiprocessing.spawn({worker}{arguments}, nprocs={device_count})"
NAME = re.compile(r"xla(:\d+)?")
DEVICE_KEYWORDS = frozenset({"device", "device_type", "default"})
OF_DEVICE = ("torch.device", "torch.amp.GradScaler", "torch.set_default_device", "torch.Generator", "torch.distributed.device_mesh.init_device_mesh")
VARIABLES = re.compile(r"PJRT_\w+|XLA_USE_\w+|XLA_DOWNCAST_\w+|XRT_\w+")
ENVIRONMENT = ("os.environ", "os.environ.setdefault")


def check(context: Context):
    several = context.project.program_mentions(context.module.source.path, SEVERAL)
    for name, template in SPEAKING.items():
        for node in context.uses(name):
            if isinstance(node, ast.Call):
                yield context.finding(node, ops=context.replace(node, template))
    for name, forms in RANKS.items():
        for node in context.uses(name):
            if isinstance(node, ast.Call):
                yield context.finding(node, ops=context.replace(node, forms[not several]))
    for node in context.uses(*ENDS):
        waits = isinstance(node, ast.Call) and any(k.arg == "wait" and constant(k.value) is True for k in node.keywords)
        ops = context.replace(node, "{sync_wait}") if waits else context.drop(node, "None" if isinstance(node, ast.Call) else "")
        yield context.finding(node, "a step needs no end here: operations run as they come", ops)
    for name, new in RENAMED.items():
        for node in context.uses(name):
            yield context.finding(node, ops=renamed(context, node, new))
    yield from seeds(context)
    yield from steps(context, several)
    yield from together(context, several)
    yield from saves(context, several)
    yield from started(context)
    yield from texts(context)


def renamed(context: Context, node: ast.expr, new: str):
    name = node.func if isinstance(node, ast.Call) else node
    ops = context.replace(name, new)
    if isinstance(node, ast.Call) and new.endswith("precision") and node.args and constant(node.args[0]) == "default":
        ops += context.replace(node.args[0], '"medium"')
    return ops


def seeds(context: Context):
    """`torch.manual_seed` seeds the device too."""
    seeded = {syntax.enclosing_scope(call) for call in context.calls("torch.manual_seed")}
    for call in context.calls(*SEEDS):
        if not syntax.is_dead(call) and call.args:
            is_done = syntax.enclosing_scope(call) in seeded
            yield context.finding(call, ops=context.drop(call) if is_done else context.replace(call, "{seed}({value})", value=call.args[0]))


def steps(context: Context, several: bool):
    for call in context.calls(XM + "optimizer_step"):
        if syntax.is_dead(call) or not call.args:
            continue
        if several and not context.project.program_mentions(context.module.source.path, REDUCED):
            yield context.finding(call, "reduces the gradients of all processes and steps: wrap the model in DistributedDataParallel, then this is optimizer.step()")
        else:
            arguments = syntax.argument(call, "optimizer_args", 2)
            template, holes = stepped(arguments)
            yield context.finding(call, ops=context.replace(call, template, optimizer=call.args[0], **holes))


def stepped(arguments: ast.expr | None) -> tuple[str, dict[str, ast.expr]]:
    """The step with what `optimizer_args` gave it: a closure, or whatever a dictionary holds."""
    if arguments is None:
        return "{optimizer}.step()", {}
    if isinstance(arguments, ast.Dict) and [constant(key) for key in arguments.keys] == ["closure"]:
        return "{optimizer}.step({closure})", {"closure": arguments.values[0]}
    return "{optimizer}.step(**{arguments})", {"arguments": arguments}


def together(context: Context, several: bool):
    for call in context.calls(XM + "rendezvous"):
        if not syntax.is_dead(call) and isinstance(call.parent, ast.Expr):
            yield context.finding(call, ops=context.replace(call, "torch.distributed.barrier()") if several else context.drop(call))
    for call in context.calls(XM + "master_print"):
        if syntax.is_dead(call) or not isinstance(call.parent, ast.Expr):
            continue
        if not several:
            yield context.finding(call, ops=context.replace(call.func, "print"))
        elif not call.keywords and not any(isinstance(argument, ast.Starred) for argument in call.args):
            holes = {f"printed_{at}": argument for at, argument in enumerate(call.args)}
            code = "if {rank} == 0:\n    print(" + ", ".join(f"{{{name}}}" for name in holes) + ")"
            yield context.finding(call, ops=context.replace_statement(call.parent, code, **holes))


def saves(context: Context, several: bool):
    """Read back as `map_location="cpu"` reads it; one process writes."""
    for call in context.calls(XM + "save"):
        if syntax.is_dead(call) or not call.args:
            continue
        saved, target = call.args[0], call.args[1] if len(call.args) > 1 else None
        if target is None or not isinstance(call.parent, ast.Expr):
            yield context.finding(call, "saves host copies of all tensors: torch.save with tensors that were moved by .cpu()")
            continue
        line = f"torch.save({host_copies.NAME}({{saved}}), {{target}})"
        every = any(k.arg == "master_only" and constant(k.value) is False for k in call.keywords)
        code = line if every or not several else "if {rank} == 0:\n    " + line
        ops = context.replace_statement(call.parent, code, saved=saved, target=target)
        yield context.finding(call, ops=ops + context.prelude(host_copies.PRELUDE))


def started(context: Context):
    for call in context.calls(*STARTS):
        if syntax.is_dead(call) or not call.args:
            continue
        arguments = syntax.argument(call, "args", 1)
        if not isinstance(call.parent, ast.Expr):
            yield context.finding(call, "starts the workers: set_tpu_launch_env() of torch.tpu.distributed, then torch.multiprocessing.spawn")
            continue
        template = SPAWN.replace("{arguments}", ", args={arguments}" if arguments is not None else "")
        holes = {"worker": call.args[0], **({"arguments": arguments} if arguments is not None else {})}
        ops = context.insert(call.parent, "before", "torch.tpu.distributed.set_tpu_launch_env()")
        yield context.finding(call, ops=ops + context.replace(call, template, **holes) + context.prelude("import torch.multiprocessing\n"))


def texts(context: Context):
    """`"xla"` as a device or a backend, and variables that torch_xla reads."""
    for call in context.calls("torch.autocast", "torch.amp.autocast"):
        if call.args and is_xla(call.args[0]) and not syntax.is_dead(call):
            has_type = any(k.arg == "dtype" for k in call.keywords) or len(call.args) > 1
            ops = context.replace(call.args[0], '"{device_type}"')
            yield context.finding(call, ops=ops if has_type else ops + context.edit_call(call, dtype=context.target.autocast_dtype))
    for call in context.calls("torch_xla.utils.checkpoint.checkpoint"):
        if not syntax.is_dead(call):
            ops = context.replace(call.func, "torch.utils.checkpoint.checkpoint") + context.edit_call(call, use_reentrant="False")
            yield context.finding(call, ops=ops + context.prelude("import torch.utils.checkpoint\n"))
    for call in context.calls("torch.distributed.init_process_group"):
        backend = syntax.argument(call, "backend", 0)
        if is_xla(backend) and not syntax.is_dead(call):
            ops = context.replace(backend, '"{dist_backend}"')
            yield context.finding(call, ops=ops + context.edit_call(call, remove=[k.arg for k in call.keywords if constant(k.value) == "xla://"]))
    for node in context.facts.of(ast.Constant, ast.JoinedStr):
        if is_xla(node) and names_device(context, node) and not syntax.is_dead(node):
            named, quote = ("backend", "{dist_backend}") if is_backend(context, node) else ("device", "{device_type}"), context.text(node)[-1]
            yield context.finding(node, f"the {named[0]}'s name", context.replace(node, quote + named[1] + quote))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLES.fullmatch(node.value):
            yield from variable(context, node)


def is_backend(context: Context, node: ast.Constant | ast.JoinedStr) -> bool:
    """The default of an option that names the process group's backend."""
    return isinstance(node.parent, ast.keyword) and node.parent.arg == "default" and "backend" in context.text(node.parent.parent)


def is_xla(node: ast.AST | None) -> bool:
    """`"xla"`, `"xla:0"`, `f"xla:{rank}"`."""
    if isinstance(node, ast.JoinedStr):
        return len(node.values) == 2 and constant(node.values[0]) == "xla:"
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value) is not None


def names_device(context: Context, node: ast.Constant | ast.JoinedStr) -> bool:
    """Where a device may stand: an argument, a value, a default, a comparison; not a backend, which is a name of another kind."""
    place = node.parent
    if isinstance(place, ast.keyword):
        return place.arg in DEVICE_KEYWORDS
    if isinstance(place, ast.Call):
        first = place.args and place.args[0] is node
        return bool(first) and (context.refers(place.func, *OF_DEVICE) or isinstance(place.func, ast.Attribute) and place.func.attr == "to")
    return isinstance(place, (ast.Assign, ast.AnnAssign, ast.Compare, ast.IfExp, ast.arguments, ast.Return))


def variable(context: Context, node: ast.Constant):
    place, statement = node.parent, syntax.statement_of(node)
    is_set = isinstance(place, ast.Subscript) and isinstance(statement, ast.Assign) and statement.targets == [place] or (
        isinstance(place, ast.Call) and isinstance(place.parent, ast.Expr) and context.refers(place.func, *ENVIRONMENT)
    )
    if is_set:
        yield context.finding(statement, f"{node.value} is read by torch_xla only", context.remove(statement))
