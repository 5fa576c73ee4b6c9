"""`xm.reduce_gradients` and `xm.optimizer_step` on gradients that several backward passes have added up."""

import ast

from xlaport.analysis import collectives, gradients
from xlaport.ruleset.api import Context, syntax
from xlaport.ruleset.averaging import fresh

AVERAGES = (collectives.XM + "reduce_gradients", collectives.XM + "optimizer_step")


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    calls = [call for call in context.calls(*AVERAGES) if call.args and not syntax.is_dead(call)]
    for call in calls:
        step = gradients.step_at(call, call.args[0])
        if is_viewed(context, call) and not is_fresh(call) and gradients.may_accumulate(context.training, step, calls):
            statement = syntax.statement_of(call)
            yield context.finding(call, ops=context.insert(statement, "before", fresh(ast.unparse(call.args[0]))))


def is_viewed(context: Context, call: ast.Call) -> bool:
    """Is a view made of the gradients before or in the step? SGD copies its first momentum from one."""
    statement = syntax.statement_of(call)
    block = syntax.block_of(statement)
    later = block[block.index(statement) + 1 :]
    is_sgd = any(name.endswith("optim.SGD") for name in context.values.constructors(call.args[0]))
    return is_sgd or any(gradients.does(context.training, item, gradients.is_use) for item in later)


def is_fresh(call: ast.Call) -> bool:
    """Does a statement above set `.grad` of the parameters?"""
    statement = syntax.statement_of(call)
    block = syntax.block_of(statement)
    nodes = (node for item in block[: block.index(statement)] for node in ast.walk(item))
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Store) for node in nodes)
