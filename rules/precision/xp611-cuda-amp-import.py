"""Imports of CUDA's mixed precision that nothing uses any more."""

import ast

from xlaport.ruleset.api import Context, syntax

MODULES = ("torch.cuda.amp", "torch.cuda.amp.autocast_mode", "torch.cuda.amp.grad_scaler", "torch_xla.amp")
HANDED_ON = frozenset({"autocast", "GradScaler", "custom_fwd", "custom_bwd"})


def check(context: Context):
    for node in context.facts.of(ast.ImportFrom, ast.Import):
        unused = [bound for bound, target in imported(node) if target in MODULES or parent_of(target) in MODULES]
        unused = [bound for bound in unused if not is_used(context, bound)]
        if not unused:
            continue
        ops = from_torch(context, node) if is_handed_on(context, node) else [
            op for bound in unused for op in context.drop_imported(node, bound)
        ]
        yield context.finding(node, ops=ops)


def imported(node: ast.Import | ast.ImportFrom):
    """(name bound, what it names) of an import; `import torch.cuda.amp` binds its whole dotted name here."""
    for alias in node.names:
        target = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        yield alias.asname or alias.name, target


def parent_of(dotted: str) -> str:
    return dotted.rpartition(".")[0]


def is_used(context: Context, bound: str) -> bool:
    if "." in bound:
        binds_torch = not any(alias.name == "torch" for node in context.facts.of(ast.Import) for alias in node.names)
        return binds_torch or any(
            name == bound or name.startswith(bound + ".")
            for node in context.facts.of(ast.Attribute) for name in context.names.qualified(node)
        )
    return is_exported(context, bound) or any(node.id == bound for node in context.facts.of(ast.Name))


def is_exported(context: Context, bound: str) -> bool:
    lists = [b.value for b in context.names.bindings("__all__", context.facts.tree) if b.value is not None]
    return any(isinstance(node, ast.Constant) and node.value == bound for value in lists for node in ast.walk(value))


def is_handed_on(context: Context, node: ast.stmt) -> bool:
    """In a `try`, whose other branch would lose its meaning, or in a package that exports it."""
    return isinstance(node.parent, ast.Try) or context.module.source.path.name == "__init__.py"


def from_torch(context: Context, node: ast.stmt):
    if isinstance(node, ast.Import) or any(alias.name not in HANDED_ON for alias in node.names):
        return None
    names = ", ".join(ast.unparse(alias) for alias in node.names)
    return context.replace_statement(node, f"from torch.amp import {names}")[:1]  # it needs no other import
