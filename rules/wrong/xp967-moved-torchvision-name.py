"""Names torchvision 0.24 does not have, and versions it fools."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

RENAMED = {
    "torchvision.transforms.Scale": "Resize", "torchvision.transforms.RandomSizedCrop": "RandomResizedCrop",
    "torchvision.transforms.transforms.Scale": "Resize", "torchvision.transforms.transforms.RandomSizedCrop": "RandomResizedCrop",
}
MOVED = {
    "torchvision.models.utils": "torch.hub",
    "torchvision.transforms.functional_tensor": "torchvision.transforms._functional_tensor",
}
VERSION = "torchvision.__version__"


def check(context: Context):
    for node in context.facts.of(ast.ImportFrom):
        if node.module in MOVED and not node.level and not is_guarded(node) and not syntax.is_dead(node):
            names = ", ".join(ast.unparse(alias) for alias in node.names)
            ops = context.replace_statement(node, f"from {MOVED[node.module]} import {names}")[:1]
            yield context.finding(node, f"{node.module} has moved", ops, is_idiom=False)
    for node in context.uses(*RENAMED):
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(func, ast.Attribute):
            name = next(RENAMED[name] for name in context.names.qualified(func) if name in RENAMED)
            yield context.finding(func, f"{func.attr} is called {name} now", context.replace(func, "{module}." + name, module=func.value), is_idiom=False)
    for node in context.facts.of(ast.Compare):
        number = cut_version(context, node.left)
        if number is not None and len(node.ops) == 1 and isinstance(constant(node.comparators[0]), float):
            yield context.finding(node, "torchvision 0.24 is read as 0.2 here", as_tuples(context, node, number), is_idiom=False)


def is_guarded(node: ast.stmt) -> bool:
    return any(isinstance(parent, ast.Try) and parent.handlers for parent in syntax.ancestors(node))


def cut_version(context: Context, node: ast.expr) -> ast.expr | None:
    """The version in `float(torchvision.__version__[:3])`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1):
        return None
    cut = node.args[0]
    if isinstance(cut, ast.Subscript) and isinstance(cut.slice, ast.Slice) and constant(cut.slice.upper) == 3 and context.refers(cut.value, VERSION):
        return cut.value
    return None


def as_tuples(context: Context, node: ast.Compare, version: ast.expr):
    major, _, minor = str(constant(node.comparators[0])).partition(".")
    sign = context.text(node)[len(context.text(node.left)):].strip().split(maxsplit=1)[0]
    return context.replace(node, f'tuple(map(int, {{version}}.split(".")[:2])) {sign} ({major}, {int(minor)})', version=version)
