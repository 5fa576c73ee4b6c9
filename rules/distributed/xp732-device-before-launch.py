"""What starts the runtime in the parent of the workers."""

import ast

from xlaport.analysis import collectives
from xlaport.ruleset.api import Context, syntax

STARTING = (
    "torch_xla.device", "torch_xla.devices", "torch_xla.real_devices", "torch_xla.device_count", "torch_xla.sync", "torch_xla.core.xla_model.xla_device",
    "torch_xla.core.xla_model.mark_step", "torch_xla.runtime.global_runtime_device_count", "torch_xla.runtime.addressable_device_count",
    "torch_xla.runtime.local_device_count",
)


def check(context: Context):
    starts = collectives.calls_of(context.module, *collectives.STARTS)
    workers = [start for start in starts if not is_single(start)]
    if not workers:
        return
    for call in context.calls(*STARTING):
        if syntax.is_dead(call):
            continue
        if any(collectives.precedes(call, start) for start in workers) or collectives.runs_at_import(call):
            yield context.finding(call)


def is_single(start: ast.Call) -> bool:
    """`debug_single_process=True` calls the worker in the process itself."""
    flag = syntax.argument(start, "debug_single_process")
    return isinstance(flag, ast.Constant) and flag.value is True
