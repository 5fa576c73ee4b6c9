"""`if torch.cuda.device_count() < min_gpus: exit()`: a sharded program runs on any number of chips."""

import ast
import re

from xlaport.analysis import workers
from xlaport.analysis.folding import fold, outermost_condition
from xlaport.analysis.values import constant, last_name
from xlaport.ruleset.api import Context, Kind, Mode, syntax

LEAST = re.compile(r"min|required|needed|expected", re.IGNORECASE)
LEAVES = frozenset({"exit", "_exit", "quit", "skip", "skipTest"})
ENOUGH = {ast.GtE: True, ast.Gt: True, ast.Lt: False, ast.LtE: False}
"""What a comparison with a least number says where there are enough devices."""


def check(context: Context):
    if context.mode not in (Mode.SPMD, Mode.MP):
        return
    for node in context.facts.of(ast.Compare):
        if len(node.ops) != 1 or syntax.is_dead(node) or Kind.DEVICE_COUNT not in context.values.kind(node.left):
            continue
        wanted = node.comparators[0]
        is_enough = ENOUGH.get(type(node.ops[0])) if is_least(wanted) else enough_of(node)
        if is_enough is not None and (is_least(wanted) or refuses(node, is_enough)):
            yield context.finding(node, ops=fulfilled(context, node, is_enough))


def is_least(wanted: ast.expr) -> bool:
    return isinstance(wanted, ast.Name) and LEAST.search(wanted.id) is not None


def enough_of(node: ast.Compare) -> bool | None:
    """What `>= 2`, `> 1`, `< 4`, `== 1` says of several devices; None for what one device fulfils too."""
    how, number = type(node.ops[0]), constant(node.comparators[0])
    if type(number) is not int or number < 1:
        return None
    if how in (ast.Eq, ast.NotEq):
        return (how is ast.Eq) is (number > 1)
    return ENOUGH.get(how) if number > 1 or how in (ast.Gt, ast.LtE) else None


def refuses(node: ast.Compare, is_enough: bool) -> bool:
    """Does the program end where the devices are too few: by an assertion, or in a branch that leaves or only speaks?"""
    top = outermost_condition(node)
    parent = top.parent
    if isinstance(parent, ast.Assert):
        return fold(top, lambda part: is_enough if part is node else None).constant is True
    if not isinstance(parent, ast.If):
        return False
    few = fold(top, lambda part: not is_enough if part is node else None).constant
    refusing, other = (parent.body, parent.orelse) if few else (parent.orelse, parent.body)
    return few is not None and bool(refusing) and (ends(refusing[-1]) or bool(other) and all(map(is_said, refusing)))


def ends(statement: ast.stmt) -> bool:
    """The program, or the function that has nothing to give then."""
    if isinstance(statement, ast.Return):
        return statement.value is None or type(constant(statement.value)) in (int, type(None)) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Raise) or is_call_of(statement, LEAVES)


def is_said(statement: ast.stmt) -> bool:
    return is_call_of(statement, workers.SAYING)


def is_call_of(statement: ast.stmt, names: frozenset[str]) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and last_name(statement.value.func) in names


def fulfilled(context: Context, node: ast.Compare, value: bool):
    """The comparison as a constant, and what it was combined with folded around it; what it decided alone is decided."""
    top = outermost_condition(node)
    residue = fold(top, lambda part: value if part is node else None)
    parent = top.parent
    if residue.constant is True and isinstance(parent, ast.Assert):
        return context.remove(parent)
    if residue.constant is not None and isinstance(parent, ast.If) and parent not in getattr(parent.parent, "orelse", ()):
        taken = "body" if residue.constant else "orelse"
        return context.unwrap(parent, taken) if getattr(parent, taken) else context.remove(parent)
    return context.replace(top, residue.template or str(residue.constant), **residue.holes)
