"""`dist.all_reduce(t)` in a sharded program, whose values are those of the whole job."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.values import reaching
from xlaport.ruleset.api import Context, Mode, syntax

WHOLE = frozenset(collectives.DIST + name for name in ("all_reduce", "reduce", "broadcast"))


def check(context: Context):
    if context.mode is not Mode.SPMD:
        return
    for call in context.calls(*collectives.TENSORS):
        tensor = syntax.argument(call, "tensor", 0)
        if syntax.is_dead(call) or tensor is None or is_on_host(context, tensor):
            continue
        is_statement = isinstance(call.parent, ast.Expr)
        if is_statement and context.refers(call.func, *WHOLE):
            yield context.finding(call, ops=context.remove(call.parent))
        else:
            yield context.finding(call, "expects a value of each rank: under SPMD there is one, that of the whole job")


def is_on_host(context: Context, node: ast.expr) -> bool:
    """`x.cpu()`, or a name that was given it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "cpu"
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in reaching(context.names.bindings(node), node)]
    return bool(values) and all(isinstance(value, ast.Call) and is_on_host(context, value) for value in values)
