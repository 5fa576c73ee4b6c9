"""A sync at the end of iterations in which no optimizer step surely comes last."""

import ast

from xlaport.analysis.training import is_sync
from xlaport.ruleset.api import Context


def check(context: Context):
    if not context.on_device or context.training.uses_framework:
        return
    for loop in context.training.loops_without_end:
        if any(is_sync(statement, context.names) for statement in loop.body):
            continue
        last = loop.body[-1]
        leaves = isinstance(last, (ast.Continue, ast.Break, ast.Return))
        ops = context.insert(last, "before", "{sync}") if leaves else context.insert(loop, "body_end", "{sync}")
        yield context.finding(loop, "iterations without an end grow one graph", ops)
