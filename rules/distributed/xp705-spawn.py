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
