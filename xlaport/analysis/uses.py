"""How a program uses what a name refers to: calls it, hands it on, or only names it."""

from __future__ import annotations

import ast
from enum import IntEnum

from xlaport.analysis.facts import FUNCTIONS, statement_of
from xlaport.analysis.names import Names

QUESTIONS = frozenset({"hasattr", "isinstance", "issubclass", "callable", "type", "id", "print", "repr", "str", "bool", "setattr"})
"""Builtins that look at what they are given and do not call it."""


class Use(IntEnum):
    """In the order of what it takes from what is named."""

    NAMED = 0
    """Read, compared, written to, an annotation: nothing of it runs."""

    HANDED_ON = 1
    """An argument, an element, an attribute, a result: who has it then may call it."""

    CALLED = 2
    """Called, entered, subscripted, or a decorator or base class."""


def use_of(node: ast.expr, names: Names) -> Use:
    """The strongest use of an expression; where a variable keeps it, of that variable in the same file."""
    return _use_of(node, names, set())


def use_of_import(statement: ast.Import | ast.ImportFrom, bound: str, names: Names) -> Use:
    """The strongest use in the file of a name that an import binds."""
    return _use_of_bound(statement, bound, names, set())


def _use_of(node: ast.expr, names: Names, seen: set[int]) -> Use:
    while isinstance(node.parent, (ast.Attribute, ast.IfExp, ast.BoolOp)) and node is not getattr(node.parent, "test", None):
        node = node.parent
    parent = node.parent
    if isinstance(parent, ast.Call) and parent.func is not node and getattr(parent.func, "id", "") == "getattr":
        return _use_of(parent, names, seen) if node is parent.args[0] else Use.NAMED
    kept = kept_in(node)
    if kept:
        return _use_of_bound(statement_of(node) if not isinstance(parent, ast.NamedExpr) else parent, kept, names, seen)
    return direct_use(node)


def _use_of_bound(binder: ast.AST, bound: str, names: Names, seen: set[int]) -> Use:
    if id(binder) in seen:
        return Use.NAMED
    seen.add(id(binder))
    loads = (
        name for name in names.module.of(ast.Name)
        if name.id == bound and isinstance(name.ctx, ast.Load) and any(binding.node is binder for binding in names.bindings(name))
    )
    return max((_use_of(name, names, seen) for name in loads), default=Use.NAMED)


def kept_in(node: ast.expr) -> str:
    """The variable that an assignment of this very value binds."""
    parent = node.parent
    targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
    if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or parent.value is not node:
        return ""
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def direct_use(node: ast.expr) -> Use:
    parent = node.parent
    if isinstance(parent, ast.Tuple) and isinstance(parent.parent, (ast.ExceptHandler, ast.Compare, ast.Subscript, ast.Call)):
        return direct_use(parent)  # `isinstance(x, (A, B))`, `Union[A, B]`
    if isinstance(parent, ast.Call) and parent.func is not node:
        return Use.NAMED if getattr(parent.func, "id", "") in QUESTIONS else Use.HANDED_ON
    if isinstance(parent, ast.Subscript):
        return Use.CALLED if parent.value is node and not is_annotation(parent) else Use.NAMED
    if isinstance(parent, (ast.Call, ast.ClassDef)) or isinstance(parent, ast.withitem) and parent.context_expr is node:
        return Use.CALLED
    if isinstance(parent, FUNCTIONS) and node in parent.decorator_list:
        return Use.CALLED
    is_default = isinstance(parent, ast.arguments)
    is_value = isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node
    is_passed = isinstance(parent, (ast.keyword, ast.Starred, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Return, ast.Yield, ast.Lambda))
    return Use.HANDED_ON if (is_default or is_value or is_passed) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load) else Use.NAMED


def is_annotation(node: ast.expr) -> bool:
    child = node
    while isinstance(child.parent, ast.expr):
        child = child.parent
    parent = child.parent
    return child in (getattr(parent, "annotation", None), getattr(parent, "returns", None))
