"""Activation checkpointing switched on inside a library."""

import ast
import re

from xlaport.ruleset.api import Context, Mode

SWITCHES = ("gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing")
APPLIED = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing"
RECOMPUTED = "fsdp.recompute("
WRAPPERS = (
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper",
    APPLIED,
    "fairscale.nn.checkpoint_wrapper", "fairscale.nn.checkpoint.checkpoint_wrapper",
)


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls_of_method(*SWITCHES):
        if not is_own(context, call.func.attr):
            yield context.finding(call)
    if context.settings.runtime_library and context.mode is Mode.SPMD and (any(context.calls(APPLIED)) or RECOMPUTED in context.module.source.text):
        return  # the wrapper that XP726 leaves behind
    for node in context.uses(*WRAPPERS):
        if isinstance(node, ast.Call) or context.refers(getattr(node.parent, "func", None), "functools.partial"):
            yield context.finding(node)


def is_own(context: Context, method: str) -> bool:
    project = context.project
    return project.program_mentions(context.module.source.path, re.compile(rf"def {method}\("))
