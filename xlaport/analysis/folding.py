"""Boolean folding: what remains of a condition once part of it is known.

On XLA a device is always there, so `torch.cuda.is_available()` is True; what it was combined with stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

NEGATION = re.compile(r"not (\{p\d+\}|\([^()]*\))")
"""`not x`: needs no parentheses beside `and` and `or`."""

LOOKS = frozenset({"hasattr", "isinstance", "issubclass", "callable", "len"})
"""Builtins whose calls do nothing but look."""

Truth = Callable[[ast.expr], bool | None]


@dataclass(frozen=True)
class Residue:
    """A folded expression: a constant, or a template over the parts that stay (`{p0} and {p1}`)."""

    constant: bool | None
    template: str = ""
    parts: tuple[ast.expr, ...] = ()

    @property
    def holes(self) -> dict[str, ast.expr]:
        return {f"p{index}": part for index, part in enumerate(self.parts)}


def fold(node: ast.expr, truth: Truth) -> Residue:
    """Fold `not`, `and`, `or` under what `truth` knows of their operands."""
    known = truth(node)
    if known is not None:
        return Residue(known)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = fold(node.operand, truth)
        if inner.constant is not None:
            return Residue(not inner.constant)
        return Residue(None, f"not {grouped(inner)}", inner.parts)
    if isinstance(node, ast.BoolOp):
        return fold_operands(node, truth)
    return Residue(None, "{p0}", (node,))


def fold_operands(node: ast.BoolOp, truth: Truth) -> Residue:
    is_and = isinstance(node.op, ast.And)
    kept: list[Residue] = []
    for value in node.values:
        folded = fold(value, truth)
        if folded.constant is None:
            kept.append(folded)
        elif folded.constant is not is_and:
            return Residue(folded.constant)
    if not kept:
        return Residue(is_and)
    if len(kept) == 1:
        return kept[0]
    return joined(kept, " and " if is_and else " or ")


def joined(kept: list[Residue], word: str) -> Residue:
    parts: list[ast.expr] = []
    pieces = []
    for item in kept:
        piece = item.template if NEGATION.fullmatch(item.template) else grouped(item)
        for index in reversed(range(len(item.parts))):
            piece = piece.replace("{p%d}" % index, "{p%d}" % (index + len(parts)))
        pieces.append(piece)
        parts.extend(item.parts)
    return Residue(None, word.join(pieces), tuple(parts))


def grouped(item: Residue) -> str:
    return item.template if item.template == "{p0}" else f"({item.template})"


def outermost_condition(node: ast.expr) -> ast.expr:
    """The largest `not`/`and`/`or` expression a condition is an operand of."""
    while isinstance(node.parent, ast.BoolOp) or (
        isinstance(node.parent, ast.UnaryOp) and isinstance(node.parent.op, ast.Not)
    ):
        node = node.parent
    return node


def only_looks(test: ast.expr) -> bool:
    """May a condition go when nothing depends on it? It calls nothing but `hasattr` and its like."""
    acting = (node for node in ast.walk(test) if isinstance(node, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)))
    return all(isinstance(node, ast.Call) and getattr(node.func, "id", "") in LOOKS for node in acting)
