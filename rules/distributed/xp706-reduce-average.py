"""`all_reduce(t, op=ReduceOp.AVG)`: the xla backend sums only."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax

AVERAGE = "torch.distributed.ReduceOp.AVG"


def check(context: Context):
    if context.mode is Mode.SPMD:
        return  # there is nothing to reduce: XP723
    for node in context.facts.of(ast.Attribute):
        if not context.refers(node, AVERAGE) or syntax.is_dead(node):
            continue
        call = next((parent for parent in syntax.ancestors(node) if isinstance(parent, ast.Call)), None)
        is_statement = call is not None and isinstance(call.parent, (ast.Expr, ast.Assign)) and call.args  # asynchronous work is done when it is given back
        if is_statement and context.refers(call.func, "torch.distributed.all_reduce"):
            yield context.finding(node, ops=summed(context, node, call))
        else:
            yield context.finding(node, "ReduceOp.AVG raises on XLA: reduce with SUM and divide by the world size")


def summed(context: Context, node: ast.Attribute, call: ast.Call):
    return [
        *context.replace(node, "{op}.SUM", op=node.value),
        *context.insert(call.parent, "after", "{tensor}.div_({world_size})", tensor=call.args[0]),
    ]
