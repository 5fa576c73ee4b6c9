"""`init_process_group("nccl", ...)`."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Mode, syntax

NAMES = ("nccl", "NCCL", "cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo", "cuda:nccl")


def check(context: Context):
    for call in context.calls("torch.distributed.init_process_group"):
        if syntax.is_dead(call) or is_ported(call):
            continue
        backend = syntax.argument(call, "backend", 0)
        if constant(backend) == "gloo":
            yield context.finding(call, "a gloo group given XLA tensors changes nothing and says nothing: keep it for host tensors only, and use the xla backend for the device's")
            continue
        yield context.finding(call, ops=ported(context, call))


def is_ported(call: ast.Call) -> bool:
    return constant(syntax.argument(call, "init_method", 1)) == "xla://"


def ported(context: Context, call: ast.Call):
    backend = "gloo" if context.mode is Mode.SPMD else "xla"
    timeout = syntax.argument(call, "timeout")
    template, holes = f'{{func}}("{backend}", init_method="xla://"', {"func": call.func}
    if timeout is not None:
        template += ", timeout={timeout}"
        holes["timeout"] = timeout
    return [*context.replace(call, template + ")", **holes), *context.ensure("xla_backend")]


def check_torchtpu(context: Context):
    """The backend by name, and gloo beside it where objects or host tensors are gathered."""
    backend = "cpu:gloo,tpu:{dist_backend}" if any(context.calls(*collectives.OBJECTS)) else "{dist_backend}"
    for call in context.calls("torch.distributed.init_process_group"):
        given = syntax.argument(call, "backend", 0)
        extra = ["device_id"] if syntax.argument(call, "device_id") is not None else []
        if syntax.is_dead(call) or is_ported(call) or isinstance(given, ast.Constant) and given.value not in NAMES:
            continue
        if given is None and extra:
            yield context.finding(call, ops=context.edit_call(call, remove=extra))
        elif isinstance(given, ast.Constant):
            ops = context.replace(given, f'"{backend}"')
            yield context.finding(call, ops=ops + (context.edit_call(call, remove=extra) if extra else []))
