"""`DistributedSampler(dataset, num_replicas=..., rank=...)` with numbers of the CUDA job."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax

NUMBERS = ("num_replicas", "rank")


def check(context: Context):
    for call in context.calls("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler"):
        given = [keyword for keyword in call.keywords if keyword.arg in NUMBERS]
        if syntax.is_dead(call) or context.mode is Mode.KEEP or not context.on_device:
            continue
        if context.mode is Mode.SPMD:
            count, index = "xr.process_count()", "xr.process_index()"
        elif given or len(call.args) > 1:
            count, index = "{world_size}", "{rank}"
        else:
            continue  # asks the process group, which answers for XLA
        if all(is_ported(context, keyword.value) for keyword in given) and len(given) == 2:
            continue
        positions = [number for number in (1, 2) if number < len(call.args)]
        yield context.finding(call, ops=context.edit_call(call, positions=positions, num_replicas=count, rank=index))


def is_ported(context: Context, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(name.startswith("torch_xla.runtime.") for name in context.names.qualified(node.func))
