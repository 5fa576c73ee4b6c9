"""Ops on the host that have a form over whole tensors: masks, counts, `torch.equal`, and ops made of others."""

from xlaport.ruleset.api import Context
from xlaport.ruleset.forms import branches, lowered, masks


def fix(context: Context, event):
    return masks.without_selection(context, event) or branches.chosen_on_device(context, event) or lowered.lowered(context, event)
