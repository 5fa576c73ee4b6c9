"""`DistributedDataParallel` of an XLA program over gloo."""

from xlaport.analysis import collectives
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    joined = [constant(syntax.argument(call, "backend", 0)) for call in context.calls(collectives.INIT)]
    if "torch_xla" not in context.module.source.text or not joined or "xla" in joined or context.mode is not Mode.KEEP:
        return  # where the wrapper is taken off, XP701 speaks of it
    for call in context.calls("torch.nn.parallel.DistributedDataParallel"):
        if not syntax.is_dead(call):
            yield context.finding(call)
