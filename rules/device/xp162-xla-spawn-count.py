"""`xmp.spawn(fn, nprocs=8)`: PJRT decides how many processes there are."""

import ast

from xlaport.ruleset.api import Context, syntax

SPAWN = "torch_xla.distributed.xla_multiprocessing.spawn"


def check(context: Context):
    for call in context.calls(SPAWN):
        count = given_count(call)
        if count is None or is_accepted(count) or syntax.is_dead(call):
            continue
        if isinstance(count, ast.Constant):
            ops = context.edit_call(call, remove=("nprocs",), positions=(2,) if len(call.args) == 3 else ())
        else:
            ops = context.replace(count, "1 if {count} == 1 else None", count=count)
        yield context.finding(call, "nprocs may be None or 1 only", ops)


def given_count(call: ast.Call) -> ast.expr | None:
    if len(call.args) > 2:
        return call.args[2]
    return syntax.argument(call, "nprocs")


def is_accepted(count: ast.expr) -> bool:
    if isinstance(count, ast.IfExp):
        return is_accepted(count.body) and is_accepted(count.orelse)
    return isinstance(count, ast.Constant) and count.value in (None, 1)
