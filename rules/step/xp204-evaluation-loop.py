"""A sync at the end of each evaluation batch."""

import ast

from xlaport.analysis.training import is_sync
from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    if not context.on_device or context.training.uses_framework:
        return
    for loop in context.training.evaluation_loops:
        if syntax.is_dead(loop) or any(is_sync(node, context.names) for node in ast.walk(loop)):
            continue
        if isinstance(loop.body[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            continue
        yield context.finding(loop, ops=context.insert(loop, "body_end", "{sync}"))
