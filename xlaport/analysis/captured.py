"""What torch.compile captures as a graph: functions and classes of one module, by how they are written or called there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from xlaport.analysis.facts import ancestors
from xlaport.analysis.names import Names

COMPILE = "torch.compile"


def is_captured(node: ast.AST, found: frozenset[ast.AST]) -> bool:
    """Whether a node stands in one of what `captured` gives."""
    return bool(found) and any(outer in found for outer in ancestors(node))


def captured(names: Names) -> frozenset[ast.AST]:
    """Definitions that are decorated with `torch.compile`, given to it, or compiled in place (`model.compile()`)."""
    found = {node for node in names.module.of(ast.FunctionDef, ast.ClassDef) for decorator in node.decorator_list if is_compile(names, decorator)}
    for call in names.module.of(ast.Call):
        found.update(definitions(names, compiled(names, call)))
    return frozenset(found)


def is_compile(names: Names, decorator: ast.expr) -> bool:
    """`@torch.compile`, `@torch.compile(...)` and `@partial(torch.compile, ...)`."""
    asked = [decorator] if not isinstance(decorator, ast.Call) else [decorator.func, *decorator.args[:1]]
    return any(COMPILE in names.qualified(expression) for expression in asked)


def compiled(names: Names, call: ast.Call) -> ast.expr | None:
    """What a call compiles, if it does."""
    if COMPILE in names.qualified(call.func):
        given = [keyword.value for keyword in call.keywords if keyword.arg == "model"]
        return next(iter([*call.args[:1], *given]), None)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "compile" and not names.qualified(call.func):
        return call.func.value
    return None


def definitions(names: Names, value: ast.expr | None, depth: int = 4) -> Iterator[ast.AST]:
    """The functions and classes of the module that an expression may stand for: by name, by an instance, or moved."""
    if value is None or not depth:
        return
    if isinstance(value, ast.Name):
        for binding in names.bindings(value):
            if isinstance(binding.node, (ast.FunctionDef, ast.ClassDef)):
                yield binding.node
            else:
                yield from definitions(names, binding.value, depth - 1)
    elif isinstance(value, ast.Call):
        moved = value.func.value if isinstance(value.func, ast.Attribute) else value.func
        yield from definitions(names, moved, depth - 1)
    elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
        yield from (node for node in names.module.of(ast.FunctionDef) if node.name == value.attr and isinstance(node.parent, ast.ClassDef))
