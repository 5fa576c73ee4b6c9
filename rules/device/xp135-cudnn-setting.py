"""Switches of cuDNN, cuBLAS, cuFFT and CUDA's attention kernels."""

import ast
import re

from xlaport.ruleset.api import Context, Danger, Severity, syntax

FAMILIES = ("torch.backends.cudnn.", "torch.backends.cuda.")
PRECISION = re.compile(r"tf32|fp32_precision|reduced_precision|torch\.backends\.cuda\.matmul|\.conv\b|\.rnn\b")
OF_OTHER_RULES = re.compile(r"is_built|is_flash_attention_available|can_use_")
RAISES = "torch.backends.cuda.cufft_plan_cache"


def check(context: Context):
    done: set[ast.AST] = set()
    for node in context.facts.of(ast.Attribute, ast.Name):
        name = setting(context, node)
        if not name or isinstance(node.parent, ast.Attribute) and setting(context, node.parent) or syntax.is_dead(node):
            continue
        place, ops = edit(context, node)
        if place in done:
            continue
        done.add(place)
        if ops is not None:
            yield context.finding(place, "chooses among NVIDIA's kernels: nothing on a TPU", ops)
        elif not context.is_second_name(node):
            raises = name.startswith(RAISES)
            yield context.finding(
                place, f"`{name}` says nothing about a TPU" + (" and raises without a GPU" if raises else ""),
                danger=Danger.LOUD if raises else Danger.NONE, severity=Severity.ERROR if raises else Severity.NOTE, is_idiom=raises,
            )
    for call in context.facts.of(ast.Call):
        if is_setattr(context, call):
            yield context.finding(call, "chooses among NVIDIA's kernels: nothing on a TPU", context.remove(call.parent))


def setting(context: Context, node: ast.expr) -> str:
    """The qualified name of a setting this rule speaks of; empty for anything else."""
    for name in context.names.qualified(node):
        if name.startswith(FAMILIES) and not PRECISION.search(name) and not OF_OTHER_RULES.search(name):
            return name
    return ""


def edit(context: Context, node: ast.expr):
    """(what is guilty, the operations that take it away or None)."""
    statement = syntax.statement_of(node)
    if isinstance(node.ctx, ast.Store):
        return statement, context.remove(statement) if assigns_only_settings(context, statement) else None
    call = node.parent
    if not isinstance(call, ast.Call) or call.func is not node:
        return node, None
    if isinstance(call.parent, ast.withitem):
        return call, context.drop(call) if call.parent.optional_vars is None else None
    return call, context.drop(call)


def assigns_only_settings(context: Context, statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return all(isinstance(part, ast.Attribute) and setting(context, part) for part in flat)


def is_setattr(context: Context, call: ast.Call) -> bool:
    """`setattr(torch.backends.cudnn, "benchmark", True)`."""
    return (
        isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3 and isinstance(call.parent, ast.Expr)
        and context.refers(call.args[0], "torch.backends.cudnn", "torch.backends.cuda")
    )
