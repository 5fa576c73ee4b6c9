"""Values of the device read in one process, while a collective is pending."""

import ast
import re
from collections.abc import Iterable, Iterator

from xlaport.analysis import collectives
from xlaport.analysis.values import Values, last_name
from xlaport.ruleset import one_rank
from xlaport.ruleset.api import Context, Kind, Mode, syntax

SENT = frozenset(collectives.TENSORS) | frozenset(collectives.XM + name for name in (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast",
))
"""Collectives that stay in the graph until something starts it; `broadcast_master_param` and `mesh_reduce` start it."""

HOLDING = re.compile(r"\b(?:all_reduce|broadcast|reduce|scatter|gather|all_gather\w*|reduce_scatter\w*|all_to_all\w*|collective_\w+)\(")
READS = frozenset({"item", "tolist", "numpy", "cpu"})
READING = re.compile(rf"\.(?:{'|'.join(READS)})\(|\bsync\(")
SHOWING = frozenset("print float int bool str format info debug warning error log write add_scalar log_metrics".split())
KNOWN_WITHOUT = frozenset("shape dtype device ndim size dim numel".split())
STEP = collectives.XM + "optimizer_step"
LEAVES = (ast.Return, ast.Continue, ast.Break)


def check(context: Context):
    several = context.mode in (Mode.MP, Mode.KEEP) or context.mode is Mode.ONE and has_collectives(context)
    if not context.on_device or not several:
        return
    guarded = sorted([*guards(context), *calls_that_read(context)], key=lambda found: found[1].lineno)
    if not guarded:
        return
    sent = [*direct(context.values, context.facts.of(ast.Call), context.module), *through(context)]
    done: list[ast.stmt] = []
    for read, guard in guarded:
        before = [call for call in sent if guard not in done and is_pending(context, call, guard, done)]
        if not before:
            continue
        taken = {text for call in before for text in written(context.values, call)}
        if isinstance(read, ast.Call) or (read := first_read(context.values, read, taken)):
            done.append(guard)
            yield context.finding(read, f"read in one process only, while the collective of line {before[-1].lineno} is pending in all", one_rank.nothing_pending(context, guard))


def has_collectives(context: Context) -> bool:
    return collectives.has_replicas(context.module) or bool(collectives.calls_of(context.module, *collectives.TENSORS))


# -- what one process does alone


def guards(context: Context) -> Iterator[tuple[list[ast.AST], ast.If]]:
    """Conditions on the rank that are not below another, each with what they let one process do."""
    for guard in context.facts.of(ast.If):
        if not syntax.is_dead(guard) and asks_rank(context, guard.test) and not one_rank.outermost_guard(context.values, guard):
            rest = syntax.following(guard) if not guard.orelse and isinstance(guard.body[-1], LEAVES) else []
            yield [*asked_alone(context, guard.test), *guard.body, *guard.orelse, *rest], one_rank.head_of(guard)


def asked_alone(context: Context, test: ast.expr) -> list[ast.expr]:
    """Parts of a condition that are asked only where the rank was right: all processes ask what stands before."""
    parts = test.values if isinstance(test, ast.BoolOp) else []
    return parts[next((number for number, part in enumerate(parts, 1) if asks_rank(context, part)), len(parts)):]


def asks_rank(context: Context, test: ast.expr) -> bool:
    return one_rank.tests_rank(context.values, test) or any(collectives.is_index(node, context.module) for node in ast.walk(test))


def calls_that_read(context: Context) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Calls, in all processes, of functions that read in one."""
    called = context.values.calls_by_last_name
    for name in context.project.functions_with(one_rank.RANK) & called.keys():
        for call in called[name]:
            if syntax.is_dead(call) or one_rank.outermost_guard(context.values, call) or syntax.enclosing(call, ast.Lambda):
                continue
            if any(reads_alone(function, values) for function, values in context.values.functions_called(call)):
                yield call, syntax.statement_of(call)


def reads_alone(function: ast.AST, values: Values) -> bool:
    """Does a function hand its parameters' values to one process?"""
    taken = {item.arg for item in function.args.args}
    conditions = [node for node in syntax.own_nodes(function) if isinstance(node, ast.If) and one_rank.tests_rank(values, node.test)]
    return any(
        part.func.attr in READS and part.func.value.id in taken
        for guard in conditions for part in ast.walk(guard)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name)
    )


def first_read(values: Values, parts: list[ast.AST], taken: set[str]) -> ast.AST | None:
    return next((node for node in syntax.nodes_run(parts) if is_read(values, node, taken)), None)


def is_read(values: Values, node: ast.AST, taken: set[str]) -> bool:
    """A value brought to the host, shown, or computed by what a collective wrote; a call of what does so."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        if not isinstance(node.ctx, ast.Load) or isinstance(node.parent, ast.Attribute) and node.parent.attr in KNOWN_WITHOUT:
            return False
        return ast.unparse(node) in taken or Kind.TENSOR in values.kind(node) and is_shown(node)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in READS:
        return True
    if set(one_rank.SYNCS).intersection(values.names.qualified(node.func)):
        return True
    return last_name(node.func) in values.project.functions_with(READING) and any(True for _ in values.functions_called(node))


def is_shown(node: ast.expr) -> bool:
    """A part of what is formatted or printed: not its shape."""
    for parent in syntax.ancestors(node):
        if isinstance(parent, ast.FormattedValue):
            return True
        if isinstance(parent, ast.Call):
            return last_name(parent.func) in SHOWING and parent.func is not node
        if not isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Dict, ast.Tuple, ast.List, ast.keyword)):
            return False
    return False


# -- what is pending


def direct(values: Values, nodes: Iterable[ast.AST], module=None) -> Iterator[ast.Call]:
    for call in nodes:
        if isinstance(call, ast.Call) and SENT.intersection(values.names.qualified(call.func)) and not syntax.is_dead(call):
            if module is None or not collectives.is_gloo(syntax.argument(call, "group"), module):
                yield call


def through(context: Context) -> Iterator[ast.Call]:
    """Calls of functions that leave a collective pending."""
    called = context.values.calls_by_last_name
    for name in context.project.functions_with(HOLDING) & called.keys():
        for call in called[name]:
            if not syntax.is_dead(call) and any(leaves_pending(function, values) for function, values in context.values.functions_called(call)):
                yield call


def leaves_pending(function: ast.AST, values: Values) -> bool:
    return any(not settlers(values, call, syntax.own_nodes(function), blocks_around(call)) for call in direct(values, syntax.own_nodes(function)))


def is_pending(context: Context, call: ast.Call, guard: ast.stmt, done: list[ast.stmt]) -> bool:
    """Made before the statement in its function, in no other branch, and not started since, nor before what has its sync now."""
    function = syntax.enclosing_function(call)
    if syntax.enclosing_function(guard) is not function or not (call.lineno, call.col_offset) < (guard.lineno, guard.col_offset) or guard in syntax.ancestors(call):
        return False
    if any(is_other_branch(parent, call, guard) for parent in syntax.ancestors(guard)):
        return False
    passed = blocks_around(call) + blocks_around(guard)
    if any(call.lineno < other.lineno and other in block for other in done for block in passed):
        return False
    nodes = syntax.own_nodes(function or context.facts.tree)
    return not any(settler.lineno < guard.lineno for settler in settlers(context.values, call, nodes, passed))


def is_other_branch(parent: ast.AST, call: ast.Call, guard: ast.stmt) -> bool:
    if not isinstance(parent, ast.If):
        return False
    return any(is_within(call, mine) and is_within(guard, other) for mine, other in ((parent.body, parent.orelse), (parent.orelse, parent.body)))


def is_within(node: ast.AST, block: list[ast.stmt]) -> bool:
    return any(parent in block for parent in (node, *syntax.ancestors(node)))


def settlers(values: Values, call: ast.Call, nodes: Iterable[ast.AST], passed: list[list[ast.stmt]]) -> list[ast.Call]:
    """What all processes run behind a collective and which starts it: a sync, or a read of what it wrote; in blocks that all pass."""
    texts = written(values, call)
    return [
        node for node in nodes
        if isinstance(node, ast.Call) and node.lineno > call.lineno and starts(values, node, texts)
        and any(syntax.statement_of(node) in block for block in passed)
    ]


def blocks_around(node: ast.AST) -> list[list[ast.stmt]]:
    return [syntax.block_of(parent) for parent in (node, *syntax.ancestors(node)) if isinstance(parent, ast.stmt)]


def starts(values: Values, node: ast.Call, texts: set[str]) -> bool:
    """A step that no rule has changed yet becomes one with a barrier."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "step" and Kind.OPTIMIZER in values.guess(node.func.value):
        return True
    names = values.names.qualified(node.func)
    if set(one_rank.SYNCS).intersection(names) or STEP in names and isinstance(barrier := syntax.argument(node, "barrier", 1), ast.Constant) and barrier.value:
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr in READS and ast.unparse(node.func.value) in texts


def written(values: Values, call: ast.Call) -> set[str]:
    """As it is written, what a collective is given, and what its result is called; of a function that makes one, the tensors."""
    given = [item for argument in call.args[:2] for item in getattr(argument, "elts", [argument])]
    if not SENT.intersection(values.names.qualified(call.func)):
        given = [item for item in given if Kind.TENSOR in values.kind(item)]
    statement = syntax.statement_of(call)
    targets = [part for target in getattr(statement, "targets", ()) for part in getattr(target, "elts", [target])]
    return {ast.unparse(node) for node in (*given, *targets) if isinstance(node, (ast.Name, ast.Attribute))}
