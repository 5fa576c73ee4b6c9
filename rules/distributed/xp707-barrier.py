"""`dist.barrier()` is an empty function on the xla backend."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    if not context.on_device or context.mode is Mode.SPMD:
        return  # a sharded program's group is gloo, whose barrier waits
    for call in context.calls("torch.distributed.barrier", "torch.distributed.monitored_barrier"):
        if syntax.is_dead(call) or any(keyword.arg == "group" for keyword in call.keywords):
            continue
        if isinstance(call.parent, ast.Expr):
            yield context.finding(call, ops=context.replace(call, 'xm.rendezvous("barrier")'))
