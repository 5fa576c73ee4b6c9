"""CUDA streams: an order of work that XLA derives from the graph."""

import ast
import re

from xlaport.analysis.training import exclusive
from xlaport.ruleset.api import Context, Danger, Severity, syntax

BLOCKS = ("torch.cuda.stream", "torch.cuda.StreamContext")
MAKERS = (
    "torch.cuda.Stream", "torch.cuda.ExternalStream", "torch.Stream", "torch.cuda.current_stream", "torch.cuda.default_stream",
    "torch.accelerator.current_stream",
)
SETTERS = ("torch.cuda.set_stream", "torch.accelerator.set_stream")
ORDERS = ("wait_stream", "record_stream", "wait_event", "record_event")
OTHER_DEVICES = re.compile(r"\btorch\.(npu|xpu|mlu|musa|hpu|sdaa|mtia)\b")
MANUAL = "raises without a GPU, and is handed on here: {runtime} has no streams, remove it and what uses it"


def check(context: Context):
    named = [*context.uses(*MAKERS, *BLOCKS, *SETTERS)]
    dropped = whole_streams(context, named, {place: (message, ops) for place, message, ops in droppable(context, named)})
    for node, (message, ops) in dropped.items():
        yield context.finding(node, message, ops)
    for node in named:
        spoken_of = node in dropped or any(parent in dropped for parent in syntax.ancestors(node))
        if spoken_of or is_waited_for(node) or is_second(context, node):
            continue
        if is_annotation(node):
            yield context.finding(node, "a CUDA stream as a type", danger=Danger.NONE, severity=Severity.NOTE, is_idiom=False)
            continue
        if not isinstance(node, ast.Call):
            yield context.finding(node, "a CUDA stream named without making one")
        elif context.refers(node.func, *MAKERS):
            yield made(context, node, dropped)
        else:
            yield context.finding(node, MANUAL)


def whole_streams(context: Context, named: list[ast.expr], dropped: dict) -> dict:
    """The streams of a file go with all that is done with them, or all stay: half of a prefetcher is no program."""
    for node in named:
        if not isinstance(node, ast.Call) or not context.refers(node.func, *MAKERS) or is_inside(node, dropped) or is_second(context, node):
            continue
        _, holder = assigned(node)
        if holder is not None and is_handed_on(context, holder, dropped):
            message = "goes with a stream that this file hands on: {runtime} has no streams"
            return {place: (message, None) for place in dropped}
    return dropped


def droppable(context: Context, named: list[ast.expr]):
    """(place, message, edit) of blocks, settings and orders, which do not touch the program's values."""
    for node in named:
        func = node.func if isinstance(node, ast.Call) else node
        if is_second(context, node):
            continue  # the place that gave the name is edited
        if context.refers(func, *SETTERS) and isinstance(node.parent, ast.Expr):
            yield node, "chooses a stream: {runtime} has none", context.drop(node)
        elif context.refers(func, *BLOCKS):
            yield block(context, node)
    for call in context.calls_of_method(*ORDERS):
        if not isinstance(call.parent, ast.Expr) or is_own_method(context, call) or OTHER_DEVICES.search(context.text(call)):
            continue
        if any(not is_annotation(node) for node in named):
            yield call, "an order between streams: {runtime} keeps the order of the graph", context.drop(call)
        elif call.func.attr in {"wait_stream", "record_stream"}:
            yield call, "an order between streams, which {runtime} does not have: remove it when the streams go", None


def block(context: Context, node: ast.expr):
    """`with torch.cuda.stream(s):` loses the block; where the block is a value, one that does nothing takes its place."""
    message = "a block for another stream: {runtime} overlaps work by itself"
    if not isinstance(node, ast.Call):
        holder = node.parent
        if isinstance(holder, ast.Call) and context.refers(holder.func, "functools.partial") and holder.args[0] is node:
            return holder, message, context.replace(holder, "contextlib.nullcontext")
        return node, message, context.replace(node, "contextlib.nullcontext")
    if isinstance(node.parent, ast.withitem):
        return node, message, context.drop(node) if node.parent.optional_vars is None else None
    return node, message, context.replace(node, "contextlib.nullcontext()")


def made(context: Context, call: ast.Call, dropped: dict):
    """A stream that is made: removed when every use of its variable goes."""
    statement, holder = assigned(call)
    if holder is None:
        return context.finding(call, MANUAL)
    if is_handed_on(context, holder, dropped):
        return context.finding(call, MANUAL)
    others = other_uses(context, holder, dropped)
    ops = context.replace(call, "None") if others else context.remove(statement)
    for use in uses_of(context, holder):
        if is_wait(use):
            ops += context.replace(use.parent.parent, "{sync_wait}")
    return context.finding(call, "raises without a GPU; nothing but the order of work depends on it", ops)


def is_handed_on(context: Context, holder: ast.expr, dropped: dict) -> bool:
    return not all(is_none_test(use) or is_guarded(use) for use in other_uses(context, holder, dropped))


def other_uses(context: Context, holder: ast.expr, dropped: dict) -> list[ast.expr]:
    """Uses of a stream that are not removed with it."""
    return [use for use in uses_of(context, holder) if not is_inside(use, dropped) and not is_wait(use)]


def assigned(call: ast.Call) -> tuple[ast.stmt | None, ast.expr | None]:
    """(statement, variable) of `s = Stream()`, also below a condition or in a list."""
    node = call.parent
    while isinstance(node, (ast.IfExp, ast.List, ast.ListComp, ast.Tuple)):
        node = node.parent
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], (ast.Name, ast.Attribute)):
        return node, node.targets[0]
    return None, None


def uses_of(context: Context, holder: ast.expr) -> list[ast.expr]:
    if isinstance(holder, ast.Attribute):
        return [
            node for node in context.facts.of(ast.Attribute)
            if node.attr == holder.attr and isinstance(node.ctx, ast.Load) and not context.names.qualified(node)
        ]
    bound = {id(binding) for binding in context.names.bindings(holder)}
    return [
        node for node in context.facts.of(ast.Name)
        if node.id == holder.id and isinstance(node.ctx, ast.Load)
        and any(id(binding) in bound for binding in context.names.bindings(node)) and not exclusive(node, holder)
    ]


def is_second(context: Context, node: ast.expr) -> bool:
    """Called through a name the file itself gave (`stream_context = partial(torch.cuda.stream, stream=s)`)."""
    return isinstance(node, ast.Call) and context.is_second_name(node.func)


def is_inside(node: ast.AST, dropped: dict) -> bool:
    return any(parent in dropped and dropped[parent][1] is not None for parent in syntax.ancestors(node))


def is_wait(use: ast.expr) -> bool:
    """`stream.synchronize()`."""
    return isinstance(use.parent, ast.Attribute) and use.parent.attr == "synchronize" and isinstance(use.parent.parent, ast.Call)


def is_waited_for(node: ast.expr) -> bool:
    """`torch.cuda.current_stream().synchronize()` is XP120's."""
    return isinstance(node, ast.Call) and is_wait(node)


def is_none_test(use: ast.expr) -> bool:
    test = use.parent
    return isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


def is_guarded(use: ast.expr) -> bool:
    """Below `if stream is not None:`."""
    wanted = f"{ast.unparse(use)} is not None"
    child: ast.AST = use
    for parent in syntax.ancestors(use):
        if isinstance(parent, ast.If) and child in parent.body and wanted in ast.unparse(parent.test):
            return True
        child = parent
    return False


def is_annotation(node: ast.expr) -> bool:
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, (ast.arg, ast.AnnAssign)):
            return child is parent.annotation
        if isinstance(parent, (*syntax.FUNCTIONS, ast.stmt)):
            return child is getattr(parent, "returns", None)
        child = parent
    return False


def is_own_method(context: Context, call: ast.Call) -> bool:
    """A method of the project's own that has the same name."""
    return any(True for _ in context.values.functions_called(call))
