"""`nn.GRU`: importing torch_xla puts another class in its place."""

import ast

from xlaport.ruleset.api import Context, syntax

BIDIRECTIONAL = 6
"""Position of `bidirectional` among GRU's arguments."""


PACKING = ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")


def check(context: Context):
    if not context.on_device:
        return
    packs = any(context.calls(*PACKING))
    for call in context.calls("torch.nn.GRU"):
        if syntax.is_dead(call):
            continue
        if packs:
            yield over_packed(context, call)
        elif len(call.args) > BIDIRECTIONAL:
            value = context.text(call.args[BIDIRECTIONAL])
            yield context.finding(call, ops=context.edit_call(call, positions=[BIDIRECTIONAL], bidirectional=value))


def over_packed(context: Context, call: ast.Call):
    """torch's own class; a name imported on its own may be that already, by the order of the imports."""
    message = "the class torch_xla puts in place of nn.GRU refuses packed sequences"
    if not isinstance(call.func, ast.Attribute):
        return context.finding(call, message)
    ops = [*context.replace(call.func, "{func}._orig", func=call.func), *context.ensure("torch_xla")]
    return context.finding(call, message, ops)
