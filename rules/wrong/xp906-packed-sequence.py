"""Packed sequences: not to be relied on under XLA."""

from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence"):
        if not syntax.is_dead(call):
            yield context.finding(call, "packed sequences fail or go wrong on XLA: run the padded batch and mask what lies behind each length")
