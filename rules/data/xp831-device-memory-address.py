"""Addresses of device memory."""

import ast

from xlaport.analysis.project import DEVICE_WORDS
from xlaport.ruleset.api import Context, Danger, syntax

ADDRESSES = frozenset({"data_ptr", "__cuda_array_interface__"})
EXCHANGES = (
    "torch.utils.dlpack.to_dlpack", "torch.utils.dlpack.from_dlpack", "torch.to_dlpack", "torch.from_dlpack",
    "torch_xla.utils.dlpack.to_dlpack",
)


def check(context: Context):
    if not context.on_device or not context.project.mentions(context.module.source.path, DEVICE_WORDS):
        return  # tensors of a file that never speaks of a device are taken for the host's
    seen: set[ast.stmt] = set()
    for node in context.facts.of(ast.Attribute):
        statement = syntax.statement_of(node)
        if node.attr in ADDRESSES and statement not in seen and not syntax.is_dead(node):
            seen.add(statement)
            yield context.finding(node, f"`{node.attr}` says nothing about a tensor of {{runtime}}")
    for call in context.calls(*EXCHANGES):
        if not syntax.is_dead(call):
            yield context.finding(call, "DLPack does not reach a tensor of {runtime}: go through .cpu()", danger=Danger.LOUD)
