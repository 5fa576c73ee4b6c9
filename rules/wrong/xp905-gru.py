"""`nn.GRU`: importing torch_xla puts another class in its place."""

import ast

from xlaport.ruleset.api import Context, syntax

BIDIRECTIONAL = 6
"""Position of `bidirectional` among GRU's arguments."""


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.nn.GRU"):
        if syntax.is_dead(call) or len(call.args) <= BIDIRECTIONAL:
            continue
        value = context.text(call.args[BIDIRECTIONAL])
        yield context.finding(call, ops=context.edit_call(call, positions=[BIDIRECTIONAL], bidirectional=value))
