"""`xm.xla_device()` in a project that asks for the 2.x names."""

import ast

from xlaport.ruleset.api import Context


def check(context: Context):
    if context.settings.spelling != "2.x":
        return
    for node in context.uses("torch_xla.core.xla_model.xla_device"):
        name = node.func if isinstance(node, ast.Call) else node
        takes_kind = isinstance(node, ast.Call) and (len(node.args) > 1 or any(keyword.arg == "devkind" for keyword in node.keywords))
        yield context.finding(node, ops=None if takes_kind else context.replace(name, "torch_xla.device"))
