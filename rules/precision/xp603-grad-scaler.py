"""Gradient scalers become disabled ones, which are the identity."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CUDA = "torch.cuda.amp.GradScaler"
GENERAL = "torch.amp.GradScaler"
OTHERS = (
    "torch_xla.amp.GradScaler", "torch_xla.amp.grad_scaler.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler", "fairscale.optim.grad_scaler.ShardedGradScaler",
    "fairscale.optim.grad_scaler.GradScaler",
)
WRAPPERS = ("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler")
"""Classes of a library that make their own scaler and keep it as `_scaler`."""

DISABLED = 'torch.amp.GradScaler("{device_type}", enabled=False)'


def check(context: Context):
    for call in context.facts.of(ast.Call):
        if syntax.is_dead(call):
            continue
        if context.refers(call.func, *WRAPPERS):
            if is_own(context, call.func):
                continue  # its constructor is edited
            yield from around_library(context, call)
        elif context.refers(call.func, CUDA, *OTHERS) or context.refers(call.func, GENERAL) and is_active(call):
            yield context.finding(call, ops=context.replace(call, DISABLED))
    for node in context.facts.of(ast.Attribute, ast.Name):
        if context.refers(node, CUDA, *OTHERS) and is_bare(context, node):
            yield context.finding(node, "the scaler of CUDA named as a type", context.replace(node, GENERAL))


def is_own(context: Context, func: ast.expr) -> bool:
    path = context.module.source.path
    return any(context.project.find(name, path) for name in context.names.qualified(func))


def is_active(call: ast.Call) -> bool:
    """Not yet disabled, and not for the host."""
    device = syntax.argument(call, "device", 0)
    if constant(device) == "cpu":
        return False
    enabled = syntax.argument(call, "enabled")
    return constant(enabled) is not False or constant(device) == "cuda"


def is_bare(context: Context, node: ast.expr) -> bool:
    parent = node.parent
    if isinstance(parent, ast.Attribute) or not isinstance(node.ctx, ast.Load) or syntax.is_dead(node):
        return False
    if isinstance(parent, ast.Call) and parent.func is node:
        return False
    return not (isinstance(node, ast.Name) and any(b.target is None for b in context.names.bindings(node)))


def around_library(context: Context, call: ast.Call):
    """`loss_scaler = NativeScaler()`: its inner scaler is replaced in the next statement."""
    statement = call.parent
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0]
        line = f"{ast.unparse(target)}._scaler = "
        if replaced_next(statement, line):
            return
        yield context.finding(call, ops=context.insert(statement, "after", line + DISABLED))
        return
    yield context.finding(call, "makes an enabled scaler: set its `_scaler` to a disabled one")


def replaced_next(statement: ast.stmt, line: str) -> bool:
    following = syntax.following(statement)
    return bool(following) and ast.unparse(following[0]).startswith(line)
