"""Collectives below a condition that differs between processes."""

import ast

from xlaport.analysis import collectives
from xlaport.analysis.facts import FUNCTIONS, ancestors, enclosing_function
from xlaport.analysis.values import guess_by_name, last_name, reaching
from xlaport.ruleset.api import Context, Kind, Mode, syntax

READS = frozenset({"item", "tolist"})


def check(context: Context):
    has_several = context.mode in (Mode.MP, Mode.KEEP) or collectives.has_replicas(context.module) or communicates(context)
    if not context.on_device or not has_several:
        return
    reduced = reductions(context)
    for call in context.calls(*collectives.TOGETHER):
        if syntax.is_dead(call) or syntax.argument(call, "group") is not None:
            continue
        for branch in branches(call):
            why = differs(context, branch.test, reduced)
            if why:
                yield context.finding(call, f"not every process comes here, as {why}: the others wait for ever")
                break


def communicates(context: Context) -> bool:
    return bool(collectives.calls_of(context.module, *collectives.TENSORS))


def branches(call: ast.Call) -> list[ast.If]:
    """The `if`s of its function of which the call is in a body."""
    found, child = [], call
    for parent in ancestors(call):
        if isinstance(parent, (*FUNCTIONS, ast.Lambda)):
            break
        if isinstance(parent, ast.If) and child is not parent.test:
            found.append(parent)
        child = parent
    return found


def differs(context: Context, test: ast.expr, reduced: list[ast.Call]) -> str:
    """Why the condition is not the same in every process; empty where it may be."""
    for node in ast.walk(test):
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            continue
        if is_rank(context, node) and compares_rank(node):
            return "the condition asks for the rank"
        if is_own_number(context, node, reduced):
            return f"{last_name(node) or 'the number'} is read from the process's own device"
    return ""


def is_rank(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return context.refers(node.func, "torch.distributed.get_rank", "torch_xla.runtime.global_ordinal", "torch_xla.core.xla_model.is_master_ordinal")
    named = guess_by_name(last_name(node))
    return Kind.RANK in named or Kind.RANK in context.values.kind(node) and Kind.DEVICE_COUNT not in named


def compares_rank(node: ast.expr) -> bool:
    """`rank == 0`, `not rank`, `is_master_ordinal()`; not `rank == -1` or `rank is None`, which ask whether there are ranks."""
    parent = node.parent
    if not isinstance(parent, ast.Compare):
        return isinstance(node, ast.Call) or isinstance(parent, ast.UnaryOp)
    others = [parent.left, *parent.comparators]
    return not any(isinstance(other, (ast.UnaryOp, ast.Constant)) and ast.unparse(other) in {"-1", "None"} for other in others)


def is_own_number(context: Context, node: ast.expr, reduced: list[ast.Call]) -> bool:
    """`x.item()`, or a name that was given it, where `x` was not reduced in this function before."""
    if isinstance(node, ast.Call):
        return is_read_alone(node, reduced)
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in reaching(context.names.bindings(node), node) if binding.how == "assign"]
    return bool(values) and all(isinstance(value, ast.Call) and is_read_alone(value, reduced) for value in values)


def is_read_alone(call: ast.Call, reduced: list[ast.Call]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in READS:
        return False
    function = enclosing_function(call)
    return not any(enclosing_function(other) is function and other.lineno < call.lineno for other in reduced)


def reductions(context: Context) -> list[ast.Call]:
    return collectives.calls_of(context.module, *collectives.TENSORS, collectives.XM + "all_reduce", collectives.XM + "mesh_reduce")
