"""Functions of torch_xla that have a form of one line on another target."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

XM, XR = "torch_xla.core.xla_model.", "torch_xla.runtime."
SEVERAL = re.compile(r"init_process_group\(|\blaunch\(|\bspawn\(|DistributedDataParallel|fully_shard")
REDUCED = re.compile(r"DistributedDataParallel|\bDDP\(|fully_shard")
SPEAKING = {
    **dict.fromkeys((XM + "xla_device", "torch_xla.device"), "{device}"),
    **dict.fromkeys((XM + "xla_device_kind", XM + "xla_real_devices"), "{device_name}"),
    XM + "wait_device_ops": "{sync_wait}",
}
RANKS = {
    **dict.fromkeys((XM + "get_ordinal", XR + "global_ordinal"), ("{rank}", "0")),
    **dict.fromkeys((XM + "get_local_ordinal", XR + "local_ordinal"), ('int(os.environ["LOCAL_RANK"])', "0")),
    **dict.fromkeys((XM + "xrt_world_size", XR + "world_size"), ("{world_size}", "1")),
    XM + "is_master_ordinal": ("{rank} == 0", "True"),
}
"""Name -> the form with a process group, and in a program of one process."""

ENDS = (XM + "mark_step", "torch_xla.sync", "torch_xla.step", "torch_xla.experimental.eager_mode")
SEEDS = ("torch_xla.manual_seed", XM + "set_rng_state")
RENAMED = {
    "torch_xla.compile": "torch.compile",
    "torch_xla.backends.set_mat_mul_precision": "torch.set_float32_matmul_precision",
    **{f"torch_xla.amp.syncfree.{name}": f"torch.optim.{name}" for name in ("Adam", "AdamW", "SGD")},
}
STARTS = ("torch_xla.launch", "torch_xla.distributed.xla_multiprocessing.spawn")
SPAWN = "torch.multiprocessing.spawn({worker}{arguments}, nprocs={device_count})"
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
            yield context.finding(call, ops=context.replace(call, "{optimizer}.step()", optimizer=call.args[0]))


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
            code = "if {rank} == 0:\n    print(" + ", ".join(map(context.text, call.args)) + ")"
            yield context.finding(call, ops=context.replace_statement(call.parent, code))


def saves(context: Context, several: bool):
    """Read back as `map_location="cpu"` reads it; one process writes."""
    for call in context.calls(XM + "save"):
        if syntax.is_dead(call) or not call.args:
            continue
        saved, target = call.args[0], call.args[1] if len(call.args) > 1 else None
        if target is None or not isinstance(call.parent, ast.Expr):
            yield context.finding(call, "saves host copies of all tensors: torch.save with tensors that were moved by .cpu()")
            continue
        is_state = isinstance(saved, ast.Call) and isinstance(saved.func, ast.Attribute) and saved.func.attr == "state_dict"
        held = "{name: value.cpu() for name, value in %s.items()}" % context.text(saved) if is_state else context.text(saved)
        line = f"torch.save({held}, {context.text(target)})"
        every = any(k.arg == "master_only" and constant(k.value) is False for k in call.keywords)
        code = line if every or not several else "if torch.distributed.get_rank() == 0:\n    " + line
        yield context.finding(call, ops=context.replace_statement(call.parent, code))


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
    for call in context.calls("torch.device"):
        if call.args and constant(call.args[0]) in ("xla", "xla:0") and not syntax.is_dead(call):
            yield context.finding(call, ops=context.replace(call, "{device}"))
    for call in context.calls("torch.autocast", "torch.amp.autocast"):
        if call.args and constant(call.args[0]) == "xla" and not syntax.is_dead(call):
            missing = {} if any(k.arg == "dtype" for k in call.keywords) or len(call.args) > 1 else {"dtype": "torch.bfloat16"}
            yield context.finding(call, ops=context.replace(call.args[0], '"{device_type}"') + (context.edit_call(call, **missing) if missing else []))
    for call in context.calls("torch.amp.GradScaler"):
        if call.args and constant(call.args[0]) == "xla" and not syntax.is_dead(call):
            yield context.finding(call, ops=context.replace(call.args[0], '"{device_type}"'))
    for node in context.facts.of(ast.Compare):
        for side in (node.left, *node.comparators):
            if constant(side) == "xla" and not syntax.is_dead(node):
                yield context.finding(side, ops=context.replace(side, '"{device_type}"'))
    for call in context.calls("torch.distributed.init_process_group"):
        if call.args and constant(call.args[0]) == "xla" and not syntax.is_dead(call):
            ops = context.replace(call.args[0], '"{dist_backend}"')
            yield context.finding(call, ops=ops + context.edit_call(call, remove=[k.arg for k in call.keywords if constant(k.value) == "xla://"]))
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and VARIABLES.fullmatch(node.value):
            yield from variable(context, node)


def variable(context: Context, node: ast.Constant):
    place, statement = node.parent, syntax.statement_of(node)
    is_set = isinstance(place, ast.Subscript) and isinstance(statement, ast.Assign) and statement.targets == [place] or (
        isinstance(place, ast.Call) and isinstance(place.parent, ast.Expr) and context.refers(place.func, *ENVIRONMENT)
    )
    if is_set:
        yield context.finding(statement, f"{node.value} is read by torch_xla only", context.remove(statement))
