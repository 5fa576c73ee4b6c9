"""`mp.spawn(worker, nprocs=n, args=...)`."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.multiprocessing.spawn"):
        if syntax.is_dead(call) or not (call.args or any(k.arg == "fn" for k in call.keywords)):
            continue
        if context.mode is Mode.KEEP:
            continue
        yield context.finding(call, ops=launched(context, call))


def launched(context: Context, call: ast.Call):
    keywords = {item.arg: item.value for item in call.keywords}
    worker = call.args[0] if call.args else keywords["fn"]
    arguments = call.args[1] if len(call.args) > 1 else keywords.get("args")
    holes = {"worker": worker}
    if arguments is not None:
        holes["arguments"] = arguments
    if context.mode is Mode.SPMD:
        tail = ", *{arguments}" if arguments is not None else ""
        return context.replace(call, "{worker}(0" + tail + ")", **holes)
    tail = ", args={arguments}" if arguments is not None else ""
    return context.replace(call, "torch_xla.launch({worker}" + tail + ")", **holes)


SET_ENVIRONMENT = "torch.tpu.distributed.set_tpu_launch_env"


def check_torchtpu(context: Context):
    """`mp.spawn` stays; the parent sets what a TPU job needs, and touches no device."""
    if not context.on_device:
        return
    for call in context.calls("torch.multiprocessing.spawn"):
        statement, count = syntax.statement_of(call), syntax.argument(call, "nprocs", 2)
        method = syntax.argument(call, "start_method")
        if syntax.is_dead(call):
            continue
        if method is not None and not (isinstance(method, ast.Constant) and method.value == "spawn"):
            yield context.finding(method, "a TPU may not be touched in a forked process", context.replace(method, '"spawn"'))
        if not isinstance(statement, ast.Expr) or sets_environment(context, statement):
            continue
        template, holes = (f"{SET_ENVIRONMENT}(nproc_per_node={{count}})", {"count": count}) if count is not None else (f"{SET_ENVIRONMENT}()", {})
        yield context.finding(call, ops=context.insert(statement, "before", template, **holes))


def sets_environment(context: Context, statement: ast.stmt) -> bool:
    block = syntax.block_of(statement)
    return any(context.refers(getattr(getattr(other, "value", None), "func", None), SET_ENVIRONMENT) for other in block[: block.index(statement)])
