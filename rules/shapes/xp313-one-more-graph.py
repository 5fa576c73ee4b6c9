"""Steps whose graph is another one from some moment on."""

import ast
from collections.abc import Iterator

from xlaport.analysis.training import is_sync
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax

CHANGES = frozenset({"copy_", "lerp_", "mul_", "add_", "load_state_dict"})
"""Methods that write into tensors that exist."""

BUILT_IN = 1.0
"""0 and 1 are constants of a graph, other numbers its parameters (torch_xla 2.9, measured)."""


def check(context: Context):
    if not context.on_device or context.training.uses_framework:
        return
    found = list(steps(context))
    ends = [call for call, _ in found]
    for call, optimizer in found:
        if has_branch_behind(context, call, ends):
            yield context.finding(call, "what a branch behind it changes becomes part of the next step's graph: one more compilation", is_idiom=False)
        elif "lr_scheduler" in context.module.source.text and starts_at_one(context, optimizer):
            yield context.finding(call, "a learning rate of exactly 1 is a constant of the graph: one more compilation when the scheduler changes it", is_idiom=False)


def steps(context: Context) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Each call that ends an iteration, with its optimizer; of the original and of the port."""
    yield from ((step.call, step.optimizer) for step in context.training.steps if step.ends_iteration)
    for call in context.calls("torch_xla.core.xla_model.optimizer_step"):
        if call.args and any(keyword.arg == "barrier" for keyword in call.keywords):
            yield call, call.args[0]


def has_branch_behind(context: Context, call: ast.Call, ends: list[ast.Call]) -> bool:
    """Does a branch of the same iteration change tensors after the step, and no sync end the iteration behind it?"""
    loop = next(syntax.enclosing_loops(call), None)
    later = list(statements_after(call, loop)) if loop is not None else []
    if any(is_sync(node, context.names) for statement in later for node in ast.walk(statement)):
        return False
    return any(isinstance(statement, ast.If) and changes_tensors(context, statement, ends) for statement in later)


def statements_after(call: ast.Call, loop: ast.AST) -> Iterator[ast.stmt]:
    """What an iteration still runs after a statement: the rest of its block, and of the blocks around it."""
    node: ast.AST = syntax.statement_of(call)
    while node is not loop:
        if isinstance(node, ast.stmt):
            yield from syntax.following(node)
        node = node.parent


def changes_tensors(context: Context, branch: ast.If, ends: list[ast.Call]) -> bool:
    calls = [node for node in ast.walk(branch) if isinstance(node, ast.Call)]
    if any(call in ends for call in calls):
        return False
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in CHANGES and not is_scheduler(context, call.func.value) for call in calls)


def is_scheduler(context: Context, node: ast.expr) -> bool:
    return bool(context.values.guess(node) & (Kind.SCHEDULER | Kind.OPTIMIZER | Kind.SCALER))


def starts_at_one(context: Context, optimizer: ast.expr) -> bool:
    return any(rate_is_one(context, call) for call in context.values.origins(optimizer) if isinstance(call, ast.Call))


def rate_is_one(context: Context, call: ast.Call) -> bool:
    rate = syntax.argument(call, "lr")
    if isinstance(rate, ast.Attribute):
        rates = [item.value for _, option in context.values.options(rate.attr) for item in option.keywords if item.arg == "default"]
        return any(is_one(value) for value in rates)
    return is_one(rate)


def is_one(node: ast.expr | None) -> bool:
    value = constant(node)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == BUILT_IN
