"""`xm.mark_step`: `torch_xla.sync` under its old name."""

import ast

from xlaport.ruleset.api import Context


def check(context: Context):
    for node in context.uses("torch_xla.core.xla_model.mark_step"):
        name = node.func if isinstance(node, ast.Call) else node
        yield context.finding(node, ops=context.replace(name, "torch_xla.sync"))
