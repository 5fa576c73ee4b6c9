"""Addresses of device memory."""

import ast

from xlaport.ruleset.api import Context, Danger, syntax

ADDRESSES = frozenset({"data_ptr", "__cuda_array_interface__"})
EXCHANGES = (
    "torch.utils.dlpack.to_dlpack", "torch.utils.dlpack.from_dlpack", "torch.to_dlpack", "torch.from_dlpack",
    "torch_xla.utils.dlpack.to_dlpack",
)


def check(context: Context):
    if not context.on_device:
        return
    for node in context.facts.of(ast.Attribute):
        if node.attr in ADDRESSES and not syntax.is_dead(node):
            yield context.finding(node, f"`{node.attr}` says nothing about a tensor of XLA")
    for call in context.calls(*EXCHANGES):
        if not syntax.is_dead(call):
            yield context.finding(call, "DLPack does not reach a tensor of XLA: go through .cpu()", danger=Danger.LOUD)
