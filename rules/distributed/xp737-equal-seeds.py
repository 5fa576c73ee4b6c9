"""A constant seed for the device in every replica."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.facts import ancestors
from xlaport.ruleset.api import Context, syntax

SEEDS = ("torch_xla.manual_seed", "torch_xla.core.xla_model.set_rng_state")


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    workers = collectives.started_functions(context.module)
    for call in context.calls(*SEEDS):
        seed = call.args[0] if call.args else None
        if not isinstance(seed, ast.Constant) or syntax.is_dead(call):
            continue
        in_worker = any(parent in workers for parent in ancestors(call))
        joined_before = any(collectives.precedes(join, call) for join in context.calls(collectives.INIT))
        if in_worker or joined_before:
            yield context.finding(call)
