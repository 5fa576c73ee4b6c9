"""CUDA streams: an order of work that XLA derives from the graph."""

import ast

from xlaport.ruleset.api import Context, syntax

BLOCKS = ("torch.cuda.stream", "torch.cuda.StreamContext")
MAKERS = (
    "torch.cuda.Stream", "torch.cuda.ExternalStream", "torch.Stream", "torch.cuda.current_stream", "torch.cuda.default_stream",
    "torch.accelerator.current_stream",
)
SETTERS = ("torch.cuda.set_stream", "torch.accelerator.set_stream")
ORDERS = ("wait_stream", "record_stream", "wait_event", "record_event")
MANUAL = "raises without a GPU, and is handed on here: XLA has no streams, remove it and what uses it"


def check(context: Context):
    dropped: dict[ast.AST, str] = dict(droppable(context))
    for node, message in dropped.items():
        yield context.finding(node, message, context.drop(node))
    for node in context.uses(*MAKERS, *BLOCKS, *SETTERS):
        if node in dropped or is_inside(node, dropped) or is_annotation(node) or is_waited_for(node):
            continue
        if not isinstance(node, ast.Call):
            yield context.finding(node, "a CUDA stream named without making one")
            continue
        yield made(context, node, dropped)


def droppable(context: Context):
    """Blocks, settings and orders whose removal leaves the program's values as they are."""
    for call in context.calls(*BLOCKS):
        if isinstance(call.parent, ast.withitem) and call.parent.optional_vars is None and not syntax.is_dead(call):
            yield call, "a block for another stream: XLA overlaps work by itself"
    for call in context.calls(*SETTERS):
        if isinstance(call.parent, ast.Expr) and not syntax.is_dead(call):
            yield call, "chooses a stream: XLA has none"
    for call in context.calls_of_method(*ORDERS):
        if isinstance(call.parent, ast.Expr) and not is_own_method(context, call):
            yield call, "an order between streams: XLA keeps the order of the graph"


def made(context: Context, call: ast.Call, dropped: dict[ast.AST, str]):
    """A stream that is made: removed when every use of its variable goes."""
    statement, holder = assigned(call)
    if holder is None:
        return context.finding(call, MANUAL)
    others = [use for use in uses_of(context, holder) if not is_inside(use, dropped) and not is_wait(use)]
    if others and not all(is_none_test(use) for use in others):
        return context.finding(call, MANUAL)
    ops = context.replace(call, "None") if others else context.remove(statement)
    for use in uses_of(context, holder):
        if is_wait(use):
            ops += context.replace(use.parent.parent, "{sync_wait}")
    return context.finding(call, "raises without a GPU; nothing but the order of work depends on it", ops)


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
        and any(id(binding) in bound for binding in context.names.bindings(node))
    ]


def is_inside(node: ast.AST, dropped: dict[ast.AST, str]) -> bool:
    return any(parent in dropped for parent in syntax.ancestors(node))


def is_wait(use: ast.expr) -> bool:
    """`stream.synchronize()`."""
    return isinstance(use.parent, ast.Attribute) and use.parent.attr == "synchronize" and isinstance(use.parent.parent, ast.Call)


def is_waited_for(node: ast.expr) -> bool:
    """`torch.cuda.current_stream().synchronize()` is XP120's."""
    return isinstance(node, ast.Call) and is_wait(node)


def is_none_test(use: ast.expr) -> bool:
    test = use.parent
    return isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


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
