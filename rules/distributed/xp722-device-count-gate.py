"""`if torch.cuda.device_count() < min_gpus: exit()`: a sharded program runs on any number of chips."""

import ast
import re

from xlaport.analysis.folding import fold, outermost_condition
from xlaport.ruleset.api import Context, Kind, Mode, syntax

LEAST = re.compile(r"min|required|needed|expected", re.IGNORECASE)


def check(context: Context):
    if context.mode not in (Mode.SPMD, Mode.MP):
        return
    for node in context.facts.of(ast.Compare):
        wanted = node.comparators[0]
        if len(node.ops) != 1 or not isinstance(wanted, ast.Name) or not LEAST.search(wanted.id) or syntax.is_dead(node):
            continue
        if Kind.DEVICE_COUNT not in context.values.kind(node.left):
            continue
        if isinstance(node.ops[0], (ast.GtE, ast.Gt)):
            yield context.finding(node, ops=fulfilled(context, node, True))
        elif isinstance(node.ops[0], (ast.Lt, ast.LtE)):
            yield context.finding(node, ops=fulfilled(context, node, False))


def fulfilled(context: Context, node: ast.Compare, value: bool):
    """The comparison as a constant, and what it was combined with folded around it."""
    top = outermost_condition(node)
    residue = fold(top, lambda part: value if part is node else None)
    return context.replace(top, residue.template or str(residue.constant), **residue.holes)
