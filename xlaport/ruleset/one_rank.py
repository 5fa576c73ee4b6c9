"""Branches that one process of several takes: all must have nothing pending before the one starts what is."""

from __future__ import annotations

import ast
import operator
import re

from xlaport.analysis import facts as syntax
from xlaport.analysis.values import Kind, Values, constant, guess_by_name, last_name
from xlaport.rewrite.ops import Op
from xlaport.ruleset.api import Context

SYNCS = ("torch_xla.sync", "torch.cuda.synchronize", "torch_xla.core.xla_model.mark_step")
ORDER = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
RANK = re.compile(r"rank|is_main|is_master|master_process|main_process|is_primary|ordinal")


def names_rank(values: Values, node: ast.expr) -> bool:
    parts = (part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
    return any(Kind.RANK in values.kind(part) | guess_by_name(last_name(part)) or last_name(part).endswith("rank") for part in parts)


def tests_rank(values: Values, test: ast.expr) -> bool:
    return not asks_for_ranks(test) and (RANK.search(ast.unparse(test)) is not None or names_rank(values, test))


def asks_for_ranks(test: ast.expr) -> bool:
    """`rank != -1`, `rank is not None`: whether there are ranks, the same in each."""
    return isinstance(test, ast.Compare) and any(
        isinstance(other, (ast.Constant, ast.UnaryOp)) and ast.unparse(other) in {"-1", "None"} for other in (test.left, *test.comparators)
    )


def outermost_guard(values: Values, node: ast.AST) -> ast.If | None:
    """The `if` on the rank that lets one process come to a node, the outermost of several; None where all may come."""
    found, child = None, node
    for parent in syntax.ancestors(node):
        if isinstance(parent, syntax.SCOPES):
            break
        if isinstance(parent, ast.If) and child is not parent.test and tests_rank(values, parent.test):
            found = parent
        child = parent
    return found


def head_of(guard: ast.If) -> ast.If:
    """The `if` of a chain whose `elif` a guard is: before it, all processes come by."""
    while isinstance(guard.parent, ast.If) and guard.parent.orelse == [guard]:
        guard = guard.parent
    return guard


def follows_sync(context: Context, guard: ast.stmt) -> bool:
    block = syntax.block_of(guard)
    before = block[: block.index(guard)]
    return bool(before) and isinstance(before[-1], ast.Expr) and context.refers(getattr(before[-1].value, "func", None), *SYNCS)


def nothing_pending(context: Context, guard: ast.stmt) -> list[Op]:
    """A sync of all processes before a statement in which one of them starts what is pending."""
    return [] if follows_sync(context, guard) else context.insert(guard, "before", "{sync}")


def lets_others_in(values: Values, node: ast.AST) -> bool:
    """Does a condition on the rank around a node hold in another process than the first: `rank == world_size - 1`, the `else` of `rank == 0`?"""
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, syntax.SCOPES):
            return False
        if isinstance(parent, ast.If) and child is not parent.test and holds_elsewhere(values, parent.test, child in parent.body):
            return True
        child = parent
    return False


def are_opposite(values: Values, first: ast.AST, second: ast.AST) -> bool:
    """Do conditions on the rank, one behind the other, let each process come to exactly one of two nodes?"""
    guards = [outermost_guard(values, node) for node in (first, second)]
    if None in guards or guards[0].parent is not guards[1].parent or syntax.block_of(guards[0]) is not syntax.block_of(guards[1]):
        return False
    wanted = [any(node in syntax.ancestors(place) for node in guard.body) for guard, place in zip(guards, (first, second))]
    for rank in range(4):
        answers = [answer(values, guard.test, rank) for guard in guards]
        if None in answers or (answers[0] is wanted[0]) is (answers[1] is wanted[1]):
            return False
    return True


def holds_elsewhere(values: Values, test: ast.expr, wanted: bool) -> bool:
    written = {part.value for part in ast.walk(test) if isinstance(part, ast.Constant) and type(part.value) is int}
    ranks = {1} | {number + step for number in written for step in (-1, 0, 1)}
    return any(answer(values, test, rank) is wanted for rank in ranks if rank > 0)


def answer(values: Values, test: ast.expr, rank: int) -> bool | None:
    """What a condition says in the process of a rank; None for one that does not compare the rank, which may say either."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = answer(values, test.operand, rank)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = {answer(values, part, rank) for part in test.values}
        deciding = isinstance(test.op, ast.Or)
        return deciding if deciding in parts else not deciding if (not deciding) in parts else None
    if is_rank(values, test):
        return bool(rank)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not is_rank(values, test.left):
        return None
    return compared(test.ops[0], rank, test.comparators[0])


def compared(how: ast.cmpop, rank: int, other: ast.expr) -> bool | None:
    """A rank compared with a number; with one that is not written out, it may be equal to it."""
    if isinstance(how, (ast.In, ast.NotIn)):
        members = [constant(item) for item in getattr(other, "elts", ())]
        return (rank in members) is isinstance(how, ast.In) if members else None
    number = constant(other)
    if isinstance(number, int) and type(how) in ORDER:
        return ORDER[type(how)](rank, number)
    return True if isinstance(how, ast.Eq) and not isinstance(other, (ast.Constant, ast.UnaryOp)) else None


def is_rank(values: Values, node: ast.expr) -> bool:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return bool(Kind.RANK in values.guess(node) or last_name(node).endswith("rank"))
    return isinstance(node, ast.Call) and Kind.RANK in values.kind(node)
