"""What torch.compile captures as a graph: functions and methods of one module, by how they are written or called there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from xlaport.analysis.facts import ancestors, argument, enclosing
from xlaport.analysis.names import Names
from xlaport.analysis.values import attributes_by_class, constant, last_name

COMPILE = "torch.compile"
OPTIONS = frozenset("fullgraph dynamic backend mode options disable".split())
"""What `torch.nn.Module.compile` takes; with anything else a `compile` is another library's."""

DISABLED = ("torch.compiler.disable", "torch._dynamo.disable")
FORWARD = frozenset({"forward", "__call__"})
STEPS = frozenset({"training_step", "validation_step", "test_step", "predict_step"})
"""Lightning compiles these of a LightningModule that it is given compiled."""


@dataclass(frozen=True)
class Captured:
    """Definitions that torch.compile captures, and those that are kept `outside` of its graphs by a decorator."""

    inside: frozenset[ast.AST] = frozenset()
    outside: frozenset[ast.AST] = frozenset()

    def holds(self, node: ast.AST) -> bool:
        """Whether a node is part of a graph: the innermost definition that is either decides."""
        around = (outer for outer in ancestors(node) if outer in self.inside or outer in self.outside)
        return bool(self.inside) and next(around, None) in self.inside


def captured(names: Names) -> Captured:
    """By a decorator, `torch.compile(model)` or `model.compile()`."""
    found = {node for node in names.module.of(ast.FunctionDef, ast.ClassDef) if any(is_compile(names, decorator) for decorator in node.decorator_list)}
    for call in names.module.of(ast.Call):
        found.update(given(names, compiled(names, call)))
    outside = frozenset(
        node for node in names.module.of(ast.FunctionDef) if any(is_one_of(names, decorator, *DISABLED) for decorator in node.decorator_list)
    )
    return Captured(frozenset(part for node in found for part in parts(node, outside)), outside)


def is_compile(names: Names, decorator: ast.expr) -> bool:
    """`@torch.compile`, `@torch.compile(...)` and `@partial(torch.compile, ...)`."""
    return is_one_of(names, decorator, COMPILE) and not (isinstance(decorator, ast.Call) and is_off(decorator))


def is_one_of(names: Names, decorator: ast.expr, *wanted: str) -> bool:
    """Whether a decorator is one of these functions, by itself or called with options."""
    asked = [decorator, decorator.func] if isinstance(decorator, ast.Call) else [decorator]
    return any(name in wanted for expression in asked for name in names.qualified(expression))


def is_off(call: ast.Call) -> bool:
    return constant(argument(call, "disable")) is True


def compiled(names: Names, call: ast.Call) -> ast.expr | None:
    """What a call compiles, if it does."""
    func = call.func
    if is_off(call):
        return None
    if COMPILE in names.qualified(func):
        return argument(call, "model", 0)
    if isinstance(func, ast.Call) and is_compile(names, func) and argument(func, "model", 0) is None:  # torch.compile(mode=...)(model)
        return argument(call, "model", 0)
    if isinstance(func, ast.Attribute) and func.attr == "compile" and not names.qualified(func) and is_module_compile(names, call):
        return func.value
    return None


def is_module_compile(names: Names, call: ast.Call) -> bool:
    """Whether `model.compile(...)` may be `torch.nn.Module`'s, by its arguments and what the class of the model defines."""
    if call.args or any(keyword.arg not in OPTIONS for keyword in call.keywords if keyword.arg is not None):
        return False
    owners = [found for found in definitions(names, call.func.value) if isinstance(found, ast.ClassDef)]
    return not any(methods(owner, "compile") for owner in owners)


def given(names: Names, value: ast.expr | None) -> Iterator[ast.AST]:
    """What an expression that is compiled stands for: a definition, or `forward` of `model.forward`."""
    yield from definitions(names, value)
    if isinstance(value, ast.Attribute):
        for owner in definitions(names, value.value):
            yield from methods(owner, value.attr)


def definitions(names: Names, value: ast.expr | None) -> Iterator[ast.AST]:
    """The functions and classes of the module that an expression may stand for: by name, by an instance, or moved."""
    waiting, seen = [value], {None}
    while waiting:
        value = waiting.pop()
        if value in seen:  # `model = model.eval()`
            continue
        seen.add(value)
        if isinstance(value, ast.Name):
            bindings = names.bindings(value)
            yield from (binding.node for binding in bindings if isinstance(binding.node, (ast.FunctionDef, ast.ClassDef)))
            waiting += [binding.value for binding in bindings]
        elif isinstance(value, ast.Call):
            waiting.append(value.func.value if isinstance(value.func, ast.Attribute) else value.func)
        elif is_of_self(value) and (owner := enclosing(value, ast.ClassDef)) is not None:
            yield from methods(owner, value.attr)
            waiting += attributes_by_class(names.module)[owner].get(value.attr, ())


def is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def methods(owner: ast.AST, *wanted: str) -> list[ast.FunctionDef]:
    return [node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name in wanted] if isinstance(owner, ast.ClassDef) else []


def parts(node: ast.AST, outside: frozenset[ast.AST]) -> Iterator[ast.AST]:
    """What is captured of a definition: a function, or the methods of a class that its forward reaches, all if it has none of its own."""
    starts = [*FORWARD, *STEPS] if any(last_name(base) == "LightningModule" for base in getattr(node, "bases", ())) else FORWARD
    waiting, reached = methods(node, *starts), set()
    if not waiting:
        yield node
    while waiting:
        method = waiting.pop()
        if method not in reached | outside:
            reached.add(method)
            waiting += methods(node, *(part.attr for part in ast.walk(method) if is_of_self(part)))
    yield from reached
