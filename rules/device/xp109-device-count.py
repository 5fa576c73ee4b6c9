"""`torch.cuda.device_count()`: how many devices, which on XLA has three answers."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    for call in context.calls(*devices.COUNTS):
        if syntax.is_dead(call) or devices.truth(call, context.module) is not None or in_known_test(context, call):
            continue
        if devices.runs_before_workers(call, context.module, context.project):
            yield context.finding(
                call,
                "asked before the workers start, where the TPU may not be touched: `xr.world_size()` inside the worker is the number of replicas",
                context.replace(call, "1"),
            )
        else:
            count = "{host_device_count}" if context.mode is Mode.MP else "{device_count}"
            yield context.finding(call, ops=context.replace(call, count))


def in_known_test(context: Context, call: ast.Call) -> bool:
    return isinstance(call.parent, ast.Compare) and devices.truth(call.parent, context.module) is not None
