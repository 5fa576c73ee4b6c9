"""`torch._six`, the compatibility module for Python 2."""

import ast

from xlaport.ruleset.api import Context, syntax

MODULE = "torch._six"
VALUES = {
    "string_classes": "(str, bytes)", "int_classes": "int", "inf": 'float("inf")', "nan": 'float("nan")', "FileNotFoundError": "FileNotFoundError",
}
MODULES = {"container_abcs": "collections.abc", "queue": "queue"}
IMPORTED = {"inf": "math", "nan": "math"}


def check(context: Context):
    for node in context.facts.of(ast.ImportFrom):
        if node.module == MODULE and not node.level and not is_guarded(node) and not syntax.is_dead(node):
            yield context.finding(node, ops=imports_of_python(context, node), is_idiom=False)
    for node in context.facts.of(ast.Attribute):
        if ast.unparse(node.value) == MODULE and node.attr in VALUES and not syntax.is_dead(node):
            yield context.finding(node, ops=context.replace(node, VALUES[node.attr]), is_idiom=False)


def is_guarded(node: ast.stmt) -> bool:
    """In a `try` that has another way."""
    return any(isinstance(parent, ast.Try) and parent.handlers for parent in syntax.ancestors(node))


def imports_of_python(context: Context, node: ast.ImportFrom):
    lines = []
    for alias in node.names:
        bound = alias.asname or alias.name
        if alias.name in IMPORTED:
            lines.append(f"from {IMPORTED[alias.name]} import {ast.unparse(alias)}")
        elif alias.name in MODULES:
            module = MODULES[alias.name]
            lines.append(f"import {module}" if module == bound else f"import {module} as {bound}")
        elif alias.name in VALUES:
            lines.append(f"{bound} = {VALUES[alias.name]}")
        else:
            return None
    return context.replace_statement(node, "\n".join(lines))[:1]  # only modules of Python are named
