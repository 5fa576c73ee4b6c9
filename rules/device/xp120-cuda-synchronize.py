"""`torch.cuda.synchronize()`: a wait, which on XLA also launches the pending graph."""

import ast

from xlaport.ruleset.api import Context, syntax

WAITS = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream", "torch.accelerator.current_stream")
EVENTS = ("torch.cuda.Event", "torch.Event")
CLOCKS = (
    "time.time", "time.perf_counter", "time.monotonic", "time.time_ns", "time.perf_counter_ns", "time.process_time",
    "timeit.default_timer", "datetime.datetime.now",
)


def check(context: Context):
    for node in context.uses(*WAITS):
        if not isinstance(node, ast.Call):
            yield context.finding(node, "handed on as a function that raises without a GPU", context.replace(node, "lambda *_: {sync_wait}"))
        elif context.is_second_name(node.func):
            continue  # the place that gave the name is edited
        elif isinstance(node.parent, ast.Expr) and is_in_untimed_step(context, node):
            yield context.finding(node, "a wait in the middle of a step cuts its graph in two", context.drop(node))
        elif isinstance(node.parent, ast.Expr) and waits_beside(context, node.parent):
            yield context.finding(node, "what stands beside it waits already", context.drop(node))
        else:
            yield waiting(context, node)
    for call in context.calls_of_method("synchronize"):
        if isinstance(call.func.value, ast.Call) and context.refers(call.func.value.func, *STREAMS):
            yield waiting(context, call)


def waiting(context: Context, call: ast.Call):
    return context.finding(call, "raises without a GPU; a timer on XLA must launch the graph and wait for it", context.replace(call, "{sync_wait}"))


def waits_beside(context: Context, statement: ast.Expr) -> bool:
    """Next to the record of an event, which becomes a wait and a reading of the clock (XP129), or after another wait."""
    block = syntax.block_of(statement)
    place = block.index(statement)
    before, after = block[max(place - 1, 0):place], block[place + 1:place + 2]
    if any(is_record(context, other) for other in before + after):
        return True
    return any(isinstance(other, ast.Expr) and isinstance(other.value, ast.Call) and context.refers(other.value.func, *WAITS) for other in before)


def is_record(context: Context, statement: ast.stmt) -> bool:
    """`event.record()`"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "record":
        return False
    holders = [made.parent for made in context.calls(*EVENTS) if isinstance(made.parent, ast.Assign)]
    return any(context.text(target) == context.text(call.func.value) for holder in holders for target in holder.targets)


def is_in_untimed_step(context: Context, call: ast.Call) -> bool:
    """In a loop (or function) that computes gradients, with no clock around."""
    function = syntax.enclosing_function(call)
    if reads_clock(context, function or context.facts.tree):
        return False
    scopes = [*syntax.enclosing_loops(call), *([function] if function else [])]
    marks = [*context.training.backward_calls, *(step.call for step in context.training.steps)]
    return any(parent in scopes for mark in marks for parent in syntax.ancestors(mark))


def reads_clock(context: Context, scope: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and (context.refers(node.func, *CLOCKS) or is_event_reading(node))
        for node in ast.walk(scope)
    )


def is_event_reading(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "elapsed_time"


def check_torchtpu(context: Context):
    """Kept where it stands: eager operations run as they come, so there is no graph to cut."""
    for node in context.uses("torch.cuda.synchronize"):
        if not isinstance(node, ast.Call):
            yield context.finding(node, "handed on as a function that raises without a GPU", context.replace(node, "torch.accelerator.synchronize"))
        elif isinstance(node.parent, ast.Expr) and waits_beside(context, node.parent):
            yield context.finding(node, "what stands beside it waits already", context.drop(node))
        elif not context.is_second_name(node.func):
            yield context.finding(node, "raises without a GPU", context.replace(node, "{sync_wait}"))
    for call in context.calls_of_method("synchronize"):
        if isinstance(call.func.value, ast.Call) and context.refers(call.func.value.func, *STREAMS[:2]):
            yield context.finding(call, "raises without a GPU", context.replace(call, "{sync_wait}"))
