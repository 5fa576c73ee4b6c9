"""Collectives below a condition that differs between processes."""

import ast
from collections.abc import Iterator

from xlaport.analysis import collectives
from xlaport.analysis.facts import FUNCTIONS, ancestors, enclosing_function
from xlaport.analysis.values import guess_by_name, last_name, reaching
from xlaport.ruleset import one_rank
from xlaport.ruleset.api import Context, Kind, Mode, syntax

BARRIERS = (*collectives.BARRIERS, collectives.XM + "rendezvous")
READS = frozenset({"item", "tolist"})


def check(context: Context):
    has_several = context.mode in (Mode.MP, Mode.KEEP) or collectives.has_replicas(context.module) or communicates(context)
    if not context.on_device or not has_several:
        return
    reduced = reductions(context)
    direct = [call for call in context.calls(*collectives.TOGETHER) if not syntax.is_dead(call) and syntax.argument(call, "group") is None]
    through = calls_of_holders(context, direct, reduced)
    for call in sorted([*direct, *through], key=lambda call: (call.lineno, call.col_offset)):
        why = next((why for test in conditions(call) if (why := differs(context, test, reduced))), "")
        if why and not is_paired(context, call, direct):
            what = f", with the collective in {through[call]}" if call in through else ""
            yield context.finding(call, f"not every process comes here{what}, as {why}: the others wait for ever")


def is_paired(context: Context, call: ast.Call, direct: list[ast.Call]) -> bool:
    """Two barriers, one below `rank != 0` and one below `rank == 0`: the others wait while the first works, and all reach one."""
    if not context.refers(call.func, *BARRIERS):
        return False
    others = [other for other in direct if other is not call and context.refers(other.func, *context.names.qualified(call.func))]
    return any(one_rank.are_opposite(context.values, call, other) for other in others)


def calls_of_holders(context: Context, direct: list[ast.Call], reduced: list[ast.Call]) -> dict[ast.Call, str]:
    """Calls of functions of this file that hold a collective which whoever calls them makes; and the function's name."""
    holders = {
        function for call in direct
        if isinstance(function := enclosing_function(call), FUNCTIONS) and not any(differs(context, test, reduced) for test in conditions(call))
    }
    named: dict[str, list[ast.AST]] = {}
    for node in context.facts.of(*FUNCTIONS):
        named.setdefault(node.name, []).append(node)
    found = {}
    for function in holders:
        for call in context.values.calls_by_last_name.get(function.name, ()):
            is_ours = len(named[function.name]) == 1 and not context.names.qualified(call.func) and enclosing_function(call) is not function
            if is_ours and not syntax.is_dead(call):
                found[call] = function.name
    return found


def communicates(context: Context) -> bool:
    return bool(collectives.calls_of(context.module, *collectives.TENSORS))


def conditions(call: ast.Call) -> Iterator[ast.expr]:
    """The tests of its function that decide whether a call is made: `if`s around it, and those before it that leave the function or the iteration."""
    child: ast.AST = call
    for parent in ancestors(call):
        if isinstance(child, ast.stmt):
            block = syntax.block_of(child)
            for earlier in block[: block.index(child)]:
                if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], (ast.Return, ast.Continue)):
                    yield earlier.test
        if isinstance(parent, (*FUNCTIONS, ast.Lambda)):
            return
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            yield parent.test
        child = parent


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
    if collectives.is_index(node, context.module):
        return True
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
    """`x.item()`, or a name that was given it, or a tensor that is compared, where nothing was reduced in this function before."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.parent, ast.Compare) and context.values.kind(node) == Kind.TENSOR:
        return not reduced_before(node, reduced)
    if isinstance(node, ast.Call):
        return is_read_alone(node, reduced)
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in reaching(context.names.bindings(node), node) if binding.how == "assign"]
    return bool(values) and all(isinstance(value, ast.Call) and is_read_alone(value, reduced) for value in values)


def is_read_alone(call: ast.Call, reduced: list[ast.Call]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in READS:
        return False
    return not reduced_before(call, reduced)


def reduced_before(node: ast.expr, reduced: list[ast.Call]) -> bool:
    function = enclosing_function(node)
    return any(enclosing_function(other) is function and other.lineno < node.lineno for other in reduced)


def reductions(context: Context) -> list[ast.Call]:
    return collectives.calls_of(context.module, *collectives.TENSORS, collectives.XM + "all_reduce", collectives.XM + "mesh_reduce")
