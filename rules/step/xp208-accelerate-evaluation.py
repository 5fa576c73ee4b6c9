"""Where Accelerate ends graphs of an evaluation."""

from xlaport.ruleset.api import Context, syntax

GATHERING = ("gather", "gather_for_metrics", "reduce")


def check(context: Context):
    if not context.names.calls("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
        return
    for loop in context.training.evaluation_loops:
        if not syntax.is_dead(loop):
            yield context.finding(loop, is_idiom=False)
    for call in context.calls_of_method(*GATHERING):
        if is_accelerator(context, call) and next(syntax.enclosing_loops(call), None) is not None:
            yield context.finding(call, is_idiom=False)


def is_accelerator(context: Context, call) -> bool:
    return any(name.startswith("accelerate.") for name in context.values.constructors(call.func.value))
