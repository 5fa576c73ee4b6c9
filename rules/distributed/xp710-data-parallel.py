"""`nn.DataParallel(model)`: one chip, or with the runtime library all of them."""

from xlaport.ruleset.api import Context, Mode, syntax
from xlaport.ruleset.sharding import placing
from xlaport.ruleset.sharding.settings import DATA_PARALLEL, read


def check(context: Context):
    for call in context.calls(DATA_PARALLEL, "torch.nn.parallel.data_parallel"):
        if syntax.is_dead(call):
            continue
        wrapper = read(context, call, has_inner=False) if context.refers(call.func, DATA_PARALLEL) else None
        if not context.settings.runtime_library or context.mode is not Mode.SPMD or wrapper is None:
            yield context.finding(call)
            continue
        message = "; ".join(("every chip has a copy of the model, and rows of its own of each batch", *wrapper.left))
        yield context.finding(call, message, placing.by_library(context, wrapper))
