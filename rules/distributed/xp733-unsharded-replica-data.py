"""Replicas whose loaders have no sampler."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.values import reaching
from xlaport.ruleset.api import Context, syntax

LOADERS = ("torch_xla.distributed.parallel_loader.MpDeviceLoader", "torch_xla.distributed.parallel_loader.ParallelLoader")
DIVIDING = frozenset({"sampler", "batch_sampler"})


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    for call in context.calls(*LOADERS):
        loader = syntax.argument(call, "loader", 0)
        if loader is None or syntax.is_dead(call):
            continue
        made = [loader] if isinstance(loader, ast.Call) else values_of(context, loader)
        if made and all(is_undivided(context, value) for value in made):
            yield context.finding(call)


def values_of(context: Context, node: ast.expr) -> list[ast.expr | None]:
    if not isinstance(node, ast.Name):
        return []
    return [binding.value for binding in reaching(context.names.bindings(node), node) if binding.how == "assign"]


def is_undivided(context: Context, value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call) or not context.refers(value.func, "torch.utils.data.DataLoader"):
        return False
    named = [keyword.arg for keyword in value.keywords]
    return len(value.args) < 4 and None not in named and not DIVIDING.intersection(named)
