"""`xr.world_size()` before there are replicas."""

from xlaport.analysis import collectives, devices
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

ASKING = ("torch_xla.runtime.world_size", "torch_xla.runtime.global_ordinal", "torch_xla.core.xla_model.is_master_ordinal", "torch_xla.core.xla_model.master_print")


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    joins = [call for call in context.calls(collectives.INIT) if constant(syntax.argument(call, "backend", 0)) == "xla"]
    for call in context.calls(*ASKING):
        above = any(collectives.precedes(call, join) for join in joins) and not runs_in_worker(context, call)
        before_all = collectives.runs_at_import(call) and not any(collectives.runs_at_import(join) and join.lineno < call.lineno for join in joins)
        if (above or before_all) and not syntax.is_dead(call):
            yield context.finding(call)


def runs_in_worker(context: Context, call) -> bool:
    """`torch_xla.launch` sets the replicas up before it calls the worker."""
    function = syntax.enclosing_function(call)
    return function is not None and bool(collectives.calls_of(context.module, *collectives.STARTS)) and function not in devices.starting_functions(context.module)
