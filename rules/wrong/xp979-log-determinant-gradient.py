"""Log-determinants whose gradient is asked for."""

from xlaport.ruleset.api import Context, syntax

FUNCTIONS = ("torch.slogdet", "torch.logdet", "torch.linalg.slogdet", "torch.Tensor.slogdet", "torch.Tensor.logdet")


def check(context: Context):
    for call in context.calls(*FUNCTIONS):
        if not syntax.is_dead(call):
            yield context.finding(call)
