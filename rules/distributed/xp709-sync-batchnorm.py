"""`SyncBatchNorm.convert_sync_batchnorm(model)` makes modules that refuse XLA tensors."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax

CONVERT = ("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "apex.parallel.convert_syncbn_model", "timm.layers.convert_sync_batchnorm")
OF_REPLICA = ", statistics of each replica's own batch"
OWN = "SyncBatchNorm is off: BatchNorm normalises over the batch of each replica, other numbers where that is small; --distributed spmd keeps one batch"


def check(context: Context):
    for call in context.calls(*CONVERT):
        if not syntax.is_dead(call) and call.args:
            leaves = OWN if context.mode in (Mode.MP, Mode.KEEP) else ""
            yield context.finding(call, "SyncBatchNorm refuses {runtime} tensors: plain BatchNorm" + ("" if context.mode is Mode.SPMD else OF_REPLICA), plain(context, call), leaves=leaves)


def plain(context: Context, call: ast.Call):
    statement = call.parent
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and ast.unparse(statement.targets[0]) == ast.unparse(call.args[0]):
        return context.remove(statement)
    return context.replace(call, "{model}", model=call.args[0])
