"""Replicas that draw on the device and never seed it."""

import ast
import re

from xlaport.analysis import collectives
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Mode, syntax

SEEDING = re.compile(
    r"\b(?:torch|th|cuda|random|torch_xla)\.manual_seed(?:_all)?\b|(?<![.\w])manual_seed(?:_all)?\(|\bset_rng_state\b|\bseed_everything\b|\bset_seed\b|\btorch\.seed\("
)
DRAWING = re.compile(
    r"\bDropout\w*\(|\bF\.\w*dropout|functional\.\w*dropout|\bnn\.Transformer\w*\(|\brand(?:n|int)?_like\(|\btorch\.(?:rand|randn|randint|normal)\([^#\n]*\bdevice\b"
    r"|\btorch\.bernoulli\(|\.bernoulli_?\(\)|\bmultinomial\(|\bgumbel_softmax\("
)


def check(context: Context):
    several = context.mode is Mode.MP or context.mode is Mode.ONE and collectives.has_replicas(context.module)
    path = context.module.source.path
    if not several or not context.on_device or context.project.program_mentions(path, SEEDING) or not context.project.program_mentions(path, DRAWING):
        return
    joins = [call for call in collectives.calls_of(context.module, collectives.INIT) if constant(syntax.argument(call, "backend", 0)) not in {"gloo", "mpi"}]
    for call in joins:
        is_alone = isinstance(call.parent, ast.Expr)
        yield context.finding(call, ops=context.insert(call.parent, "after", "{seed}({rank})") if is_alone else None)
    for call in [] if joins else collectives.calls_of(context.module, *collectives.STARTS):
        yield context.finding(call)
