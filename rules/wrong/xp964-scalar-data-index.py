"""`.data[0]` of tensors without dimensions."""

import ast
import re

from xlaport.analysis.values import constant, last_name
from xlaport.ruleset.api import Context, syntax

LOSS = re.compile(r"(^|_)(loss|err)(_|\d|$)|[lL]oss\d*$")
REDUCTIONS = frozenset({"sum", "mean", "norm", "max", "min", "prod", "std", "var"})


def check(context: Context):
    for node in context.facts.of(ast.Subscript):
        data = node.value
        if not (isinstance(data, ast.Attribute) and data.attr == "data" and constant(node.slice) == 0 and isinstance(node.ctx, ast.Load)):
            continue
        if is_scalar(data.value) and not syntax.is_dead(node):
            yield context.finding(node, ops=context.replace(node, "{tensor}.item()", tensor=data.value), is_idiom=False)


def is_scalar(node: ast.expr) -> bool:
    """A loss by its name, or a reduction over everything."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return LOSS.search(last_name(node)) is not None
    if isinstance(node, ast.BinOp):
        return is_scalar(node.left) or is_scalar(node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REDUCTIONS:
        return not node.args and not node.keywords
    return isinstance(node, ast.Call) and LOSS.search(last_name(node.func)) is not None
