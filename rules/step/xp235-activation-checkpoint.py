"""Activation checkpointing of torch: imports, calls, and keywords torch_xla's function does not take."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context

MODULE = "torch.utils.checkpoint"
TORCH = "torch.utils.checkpoint.checkpoint"
XLA = "torch_xla.utils.checkpoint.checkpoint"
KNOWN = frozenset({"use_reentrant", "preserve_rng_state"})
DROPPED = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop")
"""Keywords that steer how torch recomputes, and that torch_xla rejects: the values do not depend on them."""

NEEDS_GRADIENT = "torch's checkpointing fails on XLA; this one needs an input that requires a gradient"


def check(context: Context):
    if not context.on_device:
        return
    replaced = set()
    for node in context.facts.of(ast.Import, ast.ImportFrom):
        ops = from_torch_xla(context, node)
        if ops is not None:
            replaced.update(bound_by(node))
            yield context.finding(node, "torch's checkpointing fails on XLA tensors", ops)
    for node in context.uses(TORCH, XLA):
        yield from at_use(context, node, replaced)


def bound_by(node: ast.Import | ast.ImportFrom):
    return (alias.asname or alias.name for alias in node.names)


# -- imports


def from_torch_xla(context: Context, node: ast.Import | ast.ImportFrom):
    """Operations that import the function, or its module, from torch_xla; None where the import must stay."""
    if isinstance(node, ast.ImportFrom):
        return from_import(context, node)
    alias = node.names[0]
    if len(node.names) > 1 or alias.name != MODULE:
        return None
    if alias.asname:
        if names_only_function(context, alias.asname):
            return import_ops(context, node, f"import torch_xla.utils.checkpoint as {alias.asname}")
        return None
    binds_torch = not any(a.name == "torch" for other in context.facts.of(ast.Import) for a in other.names)
    if binds_torch or any(is_other_member(context, use) for use in context.facts.of(ast.Attribute)):
        return None
    return import_ops(context, node, "import torch_xla.utils.checkpoint")


def from_import(context: Context, node: ast.ImportFrom):
    if node.level or node.module not in ("torch.utils", MODULE):
        return None
    moved = [alias for alias in node.names if alias.name == "checkpoint"]
    if not moved or node.module == "torch.utils" and not names_only_function(context, moved[0].asname or "checkpoint"):
        return None
    kept = ", ".join(ast.unparse(alias) for alias in node.names if alias.name != "checkpoint")
    lines = [f"from {node.module} import {kept}"] if kept else []
    lines.append(f"from torch_xla{node.module.removeprefix('torch')} import {ast.unparse(moved[0])}")
    return import_ops(context, node, "\n".join(lines))


def import_ops(context: Context, node: ast.stmt, code: str):
    return context.replace_statement(node, code)[:1]  # these imports need no others


def names_only_function(context: Context, module_name: str) -> bool:
    """Is `checkpoint` all that the file takes from a module it imported under this name?"""
    uses = [node for node in context.facts.of(ast.Name) if node.id == module_name]
    return all(isinstance(use.parent, ast.Attribute) and use.parent.attr == "checkpoint" for use in uses)


def is_other_member(context: Context, node: ast.Attribute) -> bool:
    """`torch.utils.checkpoint.something_else`, spelled out."""
    return node.attr != "checkpoint" and ast.unparse(node.value) == MODULE


# -- uses


def at_use(context: Context, node: ast.expr, replaced: set[str]):
    if not isinstance(node, ast.Call):
        call = node.parent
        if isinstance(call, ast.Call) and context.refers(call.func, "functools.partial") and call.args[0] is node:
            yield from at_call(context, call, node, replaced)
        elif stays_torch(context, node, replaced):
            yield context.finding(node, NEEDS_GRADIENT, renamed(context, node))
        return
    yield from at_call(context, node, node.func, replaced)


def at_call(context: Context, call: ast.Call, func: ast.expr, replaced: set[str]):
    names = {keyword.arg for keyword in call.keywords}  # None: handed through, usually empty
    unknown = sorted(name for name in names - KNOWN - set(DROPPED) if name is not None)
    if unknown:
        yield context.finding(call, f"checkpointing on XLA passes arguments by position only: {', '.join(unknown)}")
        return
    kept = {k.arg for k in call.keywords if k.arg == "use_reentrant" and constant(k.value) is True}
    extra = [name for name in DROPPED if name in names - kept]
    ops = renamed(context, func) if stays_torch(context, func, replaced) else []
    if extra:
        ops = ops + context.edit_call(call, remove=extra)
    if ops:
        yield context.finding(call, NEEDS_GRADIENT, ops)


def stays_torch(context: Context, func: ast.expr, replaced: set[str]) -> bool:
    """Does an expression still name torch's function once the imports are edited?"""
    if not context.refers(func, TORCH) or context.is_second_name(func):
        return False
    root = func
    while isinstance(root, ast.Attribute):
        root = root.value
    return not (isinstance(root, ast.Name) and root.id in replaced)


def renamed(context: Context, func: ast.expr):
    return [*context.replace(func, XLA)[:1], *context.ensure("xla_checkpoint")]
