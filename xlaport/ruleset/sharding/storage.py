"""Models on meta tensors that get their storage (`to_empty`) and their values after a function of the program has wrapped them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xlaport.analysis import facts as syntax
from xlaport.analysis.project import Module, Project
from xlaport.analysis.values import last_name

WRAPS = re.compile(r"\bfully_shard\(")
GIVES_VALUES = re.compile(r"init|reset|load|weights")
"""In the name of what gives a model its values after `to_empty`."""

LEVELS = 3
"""Of functions between the one that wraps and the one that gives storage."""


def in_other_scopes(module: Module, project: Project) -> list[ast.Call]:
    """Calls `model.to_empty(...)` of a file that stand behind the wrap, where another function has wrapped the model."""
    calls = list(calls_in(module))
    wrappers = functions_that_wrap(project) if calls else frozenset()
    return [call for call in calls if not is_wrapped_here(call) and not is_passed_later(call, wrappers)]


def comes_later(module: Module, project: Project) -> bool:
    """Does a function of the program that calls the wrapping one give the model its storage afterwards?"""
    program = set(project.program(module.source.path))
    modules = (project.parsed(path) for path in project.with_word("to_empty") if path in program)
    return any(in_other_scopes(other, project) for other in modules if other is not None)


def calls_in(module: Module) -> Iterator[ast.Call]:
    """Those that are a statement: in a function for FSDP's `param_init_fn` the wrapper calls it."""
    for call in module.values.calls_by_last_name.get("to_empty", ()):
        statement = call.parent
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(call.func, ast.Attribute) and not syntax.is_dead(call):
            yield call


def is_wrapped_here(call: ast.Call) -> bool:
    """Does the scope itself wrap or mark a model, as it does once it is ported?"""
    scope = syntax.enclosing_scope(call)
    return any(
        isinstance(node, ast.Call) and syntax.enclosing_scope(node) is scope and (last_name(node.func) == "fully_shard" or ast.unparse(node.func) == "fsdp.wrap")
        or isinstance(node, ast.Call) and ast.unparse(node) == f"xm.broadcast_master_param({ast.unparse(call.func.value)})"
        or isinstance(node, ast.For) and ast.unparse(node.iter) == f"{ast.unparse(call.func.value)}.parameters()" and "mark_sharding" in ast.unparse(node)
        for node in ast.walk(scope)
    )


def is_passed_later(call: ast.Call, functions: frozenset[str]) -> bool:
    """`parallelize(model)` behind `model.to_empty(...)`: the model has storage when it is wrapped."""
    name = ast.unparse(call.func.value)
    return any(
        isinstance(node, ast.Call) and node.lineno > call.lineno and last_name(node.func) in functions and any(ast.unparse(value) == name for value in node.args)
        for node in ast.walk(syntax.enclosing_scope(call))
    )


def functions_that_wrap(project: Project) -> frozenset[str]:
    found = project.functions_with(WRAPS)
    for _ in range(LEVELS):
        found |= project.functions_with(re.compile(r"\b(?:%s)\(" % "|".join(sorted(found)))) if found else frozenset()
    return found


def with_values(statement: ast.stmt, name: str) -> ast.stmt:
    """The last statement of those that follow which gives the model its values: storage first, and what is put into it."""
    last = statement
    for later in syntax.following(statement):
        calls = [node for node in ast.walk(later) if isinstance(node, ast.Call) and name in map(ast.unparse, [*node.args, getattr(node.func, "value", node.func)])]
        if any(last_name(call.func) == "to_empty" or last is not statement and GIVES_VALUES.search(last_name(call.func)) for call in calls):
            last = later
    return last
