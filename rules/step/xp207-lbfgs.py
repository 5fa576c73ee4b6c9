"""LBFGS is driven from the host: a compilation for almost every closure evaluation."""

from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.optim.LBFGS"):
        if not syntax.is_dead(call):
            yield context.finding(call, "LBFGS decides on the host in every evaluation: keep it on the CPU, or use another optimizer")
