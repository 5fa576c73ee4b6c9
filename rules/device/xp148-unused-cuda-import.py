"""Imports of CUDA modules whose last use is gone."""

import ast
import re
from itertools import groupby
from pathlib import Path

from xlaport.analysis.names import absolute_module
from xlaport.ruleset.api import Context, EnsureImport, syntax

MODULES = ("torch.cuda", "torch.backends.cudnn", "torch.backends.cuda", "nvtx", "torch_xla.amp")
WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel", "torch.nn.DataParallel", "torch.nn.SyncBatchNorm",
    "torch.amp.GradScaler", "torch.distributed.fsdp", "torch.distributed._composable.fsdp", "torch.distributed.device_mesh",
    "torch.distributed.tensor", "torch.distributed._tensor", "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
    "torch.distributed.checkpoint",
)
"""Not of CUDA: removed only from a file that this run has edited, so that what was unused before stays."""


def check(context: Context):
    path = context.module.source.path
    modules = MODULES + (WRAPPERS if path in context.project.edited else ())
    for node in context.facts.of(ast.Import):
        yield from plain_imports(context, node)
    ours = [
        (node, alias) for node in context.facts.of(ast.Import, ast.ImportFrom) for alias in node.names if is_ours(node, alias, modules)
    ]
    if ours:
        yield from left_over(context, ours)


def left_over(context: Context, ours: list[tuple[ast.stmt, ast.alias]]):
    used = names_used(context)
    for node, aliases in groupby(ours, lambda pair: pair[0]):
        kept = []
        for _, alias in aliases:
            bound = alias.asname or alias.name
            if bound.split(".")[0] in used or is_kept(context, node, bound):
                kept.append(alias)
            else:
                yield context.finding(node, f"`{bound}` is imported and not used", context.drop_imported(node, bound), is_idiom=False)
        if any(is_ours(node, alias, MODULES) for alias in kept):
            yield context.finding(node, "imported for what is left of it here", is_idiom=False)


def plain_imports(context: Context, node: ast.Import):
    """`import torch.cuda`, which binds `torch`: it becomes `import torch`, or goes where that is there."""
    for alias in node.names:
        root = alias.name.split(".")[0]
        if alias.asname is not None or root == alias.name or not alias.name.startswith(MODULES):
            continue
        referring = (reference for name, nodes in context.names.references.items() if name.startswith(alias.name) for reference in nodes)
        if any(isinstance(reference, ast.Attribute) for reference in referring):
            yield context.finding(node, "imported for what is left of it here", is_idiom=False)
        elif is_bound_elsewhere(context, root, node):
            yield context.finding(node, f"`{alias.name}` is imported and not used", context.drop_imported(node, alias.name), is_idiom=False)
        elif len(node.names) == 1:
            ops = [op for op in context.replace_statement(node, f"import {root}") if not isinstance(op, EnsureImport)]
            yield context.finding(node, f"`{alias.name}` is imported and not used", ops, is_idiom=False)


def is_bound_elsewhere(context: Context, name: str, node: ast.Import) -> bool:
    table = context.names.scopes.get(syntax.enclosing_scope(node), {})
    return any(
        isinstance(binding.node, ast.Import) and any(alias.name == name and alias.asname is None for alias in binding.node.names)
        for binding in table.get(name, ())
    )


def is_ours(node: ast.Import | ast.ImportFrom, alias: ast.alias, modules: tuple[str, ...]) -> bool:
    """`import torch.cuda` binds `torch`, which is another matter than the module."""
    if isinstance(node, ast.Import):
        name = alias.name
        if alias.asname is None and "." in name:
            return False
    elif node.level:
        return False
    else:
        name = f"{node.module}.{alias.name}"
    return any(name == module or name.startswith(module + ".") for module in modules)


def names_used(context: Context) -> set[str]:
    """Identifiers in code, and words of strings that are annotations or in `__all__`."""
    used = {node.id for node in context.facts.of(ast.Name)}
    for node in context.facts.of(ast.Global, ast.Nonlocal):
        used.update(node.names)
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and names_things(node, context):
            used.update(re.findall(r"\w+", node.value))
    return used


def names_things(node: ast.Constant, context: Context) -> bool:
    child: ast.AST = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, (ast.arg, ast.AnnAssign)):
            return child is parent.annotation and not is_choice(node)
        if isinstance(parent, ast.stmt):
            return child is getattr(parent, "returns", None) and not is_choice(node) or starts_with_all(parent, context)
        child = parent
    return False


def starts_with_all(statement: ast.stmt, context: Context) -> bool:
    """`__all__ = [...]`, `__all__.append(...)`. Only what has the word is written out again: a string may be the default of a long function."""
    first = min([statement.lineno, *(item.lineno for item in getattr(statement, "decorator_list", ()))])
    has_word = any("__all__" in line for line in context.module.source.lines[first - 1:statement.end_lineno])
    return has_word and "__all__" in ast.unparse(statement)[:20]


def is_choice(node: ast.Constant) -> bool:
    """A text of `Literal["cpu", "cuda"]`, which stands for itself."""
    around = syntax.enclosing(node, ast.Subscript)
    return around is not None and ast.unparse(around.value).endswith("Literal")


def is_kept(context: Context, node: ast.stmt, bound: str) -> bool:
    """Marked as kept on purpose, or imported by another file from here."""
    if context.module.source.path.name == "__init__.py":
        return True
    lines = context.module.source.lines[node.lineno - 1:node.end_lineno]
    if any("noqa" in line for line in lines):
        return True
    own = context.module.source.path
    importers = context.project.files.files(context.project.links.named_by(own))
    return any(reads_from(context, path, bound) for path in importers)


def reads_from(context: Context, importer: Path, bound: str) -> bool:
    """Does another file import this name from here, or read it as an attribute of this module?"""
    own = context.module.source.path
    if bound not in context.project.sources[importer].text and "*" not in context.project.sources[importer].text:
        return False
    module = context.project.parsed(importer)
    if module is None:
        return True
    names = [name for node in module.facts.of(ast.Attribute) if node.attr == bound for name in module.names.qualified(node)]
    for node in module.facts.of(ast.ImportFrom):
        base = absolute_module(node, module.names.package)
        if any(alias.name == "*" for alias in node.names) and context.project.find(base, importer) == (own, ""):
            return True
        names += [f"{base}.{alias.name}" for alias in node.names if alias.name == bound]
    return any(context.project.find(name, importer) == (own, bound) for name in names)
