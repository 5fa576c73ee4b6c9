"""`torch.cuda.synchronize()`: a wait, which on XLA also launches the pending graph."""

import ast

from xlaport.ruleset.api import Context, syntax

WAITS = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream", "torch.accelerator.current_stream")
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
        else:
            yield waiting(context, node)
    for call in context.calls_of_method("synchronize"):
        if isinstance(call.func.value, ast.Call) and context.refers(call.func.value.func, *STREAMS):
            yield waiting(context, call)


def waiting(context: Context, call: ast.Call):
    return context.finding(call, "raises without a GPU; a timer on XLA must launch the graph and wait for it", context.replace(call, "{sync_wait}"))


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
