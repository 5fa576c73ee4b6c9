"""`torch.save` of modules and optimizers themselves."""

from xlaport.analysis.checkpoints import Written
from xlaport.ruleset.api import Context, syntax

MESSAGE = "saves a whole object, whose tensors stay on XLA in the file: save its state_dict() with xm.save"


def check(context: Context):
    if not context.on_device:
        return
    written = Written(context.module, context.project)
    for call in context.calls("torch.save", "torch_xla.core.xla_model.save"):
        saved = syntax.argument(call, "obj", 0)
        if saved is not None and not syntax.is_dead(call) and written.whole_objects(saved):
            yield context.finding(call, MESSAGE)
