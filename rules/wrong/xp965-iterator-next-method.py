"""`iterator.next()`."""

import ast

from xlaport.analysis.values import last_name
from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    for call in context.calls_of_method("next"):
        if not call.args and not call.keywords and is_iterator(context, call.func.value):
            yield context.finding(call, ops=context.replace(call, "next({iterator})", iterator=call.func.value), is_idiom=False)


def is_iterator(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "iter"
    if isinstance(node, ast.Name):
        values = [binding.value for binding in context.names.bindings(node)]
        return bool(values) and all(value is not None and is_iterator(context, value) for value in values if not isinstance(value, ast.Name))
    owner = syntax.enclosing(node, ast.ClassDef)
    if isinstance(node, ast.Attribute) and last_name(node.value) == "self" and owner is not None:
        values = context.values.assigned_attributes(owner).get(node.attr, ())
        return bool(values) and all(is_iterator(context, value) for value in values if not isinstance(value, ast.Constant))
    return False
