"""Replicas whose loaders have no sampler that divides the data."""

import ast

from xlaport.analysis import collectives
from xlaport.ruleset.api import Context, syntax

LOADERS = ("torch_xla.distributed.parallel_loader.MpDeviceLoader", "torch_xla.distributed.parallel_loader.ParallelLoader")
OF_ONE = tuple(f"torch.utils.data.{name}" for name in ("RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"))
"""Samplers that know of no replicas."""


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    for call in context.calls(*LOADERS):
        loader = syntax.argument(call, "loader", 0)
        if loader is None or syntax.is_dead(call):
            continue
        made = [loader] if isinstance(loader, ast.Call) else collectives.given(loader, context.module)
        if made and all(is_undivided(context, value) for value in made):
            yield context.finding(call)


def is_undivided(context: Context, value: ast.expr | None) -> bool:
    """A loader without a sampler, or with one that knows of no replicas."""
    if not isinstance(value, ast.Call) or not context.refers(value.func, "torch.utils.data.DataLoader"):
        return False
    named = {keyword.arg: keyword.value for keyword in value.keywords}
    if len(value.args) >= 4 or None in named or "batch_sampler" in named:
        return False
    return "sampler" not in named or is_of_one(context, named["sampler"])


def is_of_one(context: Context, sampler: ast.expr) -> bool:
    made = [sampler] if isinstance(sampler, (ast.Call, ast.Constant)) else collectives.given(sampler, context.module)
    return bool(made) and all(
        isinstance(value, ast.Constant) and value.value is None or isinstance(value, ast.Call) and context.refers(value.func, *OF_ONE) for value in made
    )
