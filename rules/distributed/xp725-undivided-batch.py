"""Batches of a sharded program that no mark divides."""

import ast
import re
from collections.abc import Iterator

from xlaport.analysis.parallel import DDP, FSDP
from xlaport.ruleset.api import Context, Kind, Mode, syntax
from xlaport.ruleset.sharding import batches

MARK = 'xs.mark_sharding({batch}, xs.get_global_mesh(), ("{axis}", *[None] * ({batch}.dim() - 1)))'
MARK_NEST = "for batch_part in {batch}.values():\n    " + MARK.replace("{batch}", "batch_part")
LIBRARY_MARK = "fsdp.shard_batch({batch}, fsdp.current_mesh())"
LIBRARY_LOADER = "fsdp.shard_loader({loader}, fsdp.current_mesh(), sync=False)"
LOADERS = ("xlaport.runtime.fsdp.shard_loader", "torch_xla.distributed.parallel_loader.MpDeviceLoader")

COPIES = re.compile(r'\("data",\)')
BY_LOADER = re.compile(r"input_sharding")
"""A loader of torch_xla that divides what it gives."""

DIVIDED = re.compile(r"mark_sharding\((?!fsdp_param)|shard_loader|shard_batch|ShardingSpec")
"""A mark of a batch, or of anything but the parameters that a port marks."""


def check(context: Context):
    if context.mode is not Mode.SPMD or not context.on_device or context.training.uses_framework:
        return
    if context.project.program_mentions(context.module.source.path, BY_LOADER):
        return
    loops = training_loops(context) if context.settings.runtime_library else ()
    loaders = {loop: loader for loop in loops if (loader := loader_of(context, loop)) is not None}
    for loader in loaders.values():
        yield context.finding(loader, ops=context.replace(loader, LIBRARY_LOADER, loader=loader))
    found = list(batches.found(context))
    for batch in found:
        if not any(loop in loaders or gives_divided(context, loop) for loop in syntax.enclosing_loops(batch.statement)):
            yield context.finding(batch.statement, ops=context.insert(batch.statement, "after", mark_of(context, batch)))
    if not found and not loaders and not context.project.program_mentions(context.module.source.path, DIVIDED):
        for step in context.training.steps:
            yield context.finding(step.call, "the batch of this step is whole on every chip: divide its rows with xs.mark_sharding where it is put on the device")


def training_loops(context: Context) -> Iterator[ast.For]:
    training = context.training
    loops = dict.fromkeys([*(step.loop for step in training.steps), *(loop for loop in training.batch_loops if loop not in training.evaluation_loops)])
    return (loop for loop in loops if isinstance(loop, ast.For))


def loader_of(context: Context, loop: ast.For) -> ast.expr | None:
    """The loader a loop goes through, by itself or in `enumerate(...)`, a progress bar and the like."""
    node: ast.expr = loop.iter
    while isinstance(node, ast.Call) and node.args and Kind.LOADER not in context.values.kind(node):
        node = node.args[0]
    is_given = isinstance(node, (ast.Name, ast.Attribute))
    return node if is_given and Kind.LOADER in context.values.guess(node) and not gives_divided(context, loop) else None


def gives_divided(context: Context, loop: ast.AST | None) -> bool:
    """A loop through a loader that divides its batches."""
    return isinstance(loop, ast.For) and any(isinstance(node, ast.Call) and context.refers(node.func, *LOADERS) for node in ast.walk(loop.iter))


def mark_of(context: Context, batch: batches.Batch) -> str:
    if context.settings.runtime_library:
        return LIBRARY_MARK.replace("{batch}", context.text(batch.target))
    path = context.module.source.path
    is_copied = context.project.program_mentions(path, COPIES) or context.project.program_mentions(path, DDP) and not context.project.program_mentions(path, FSDP)
    template = MARK_NEST if batch.is_nest else MARK
    return template.replace("{batch}", context.text(batch.target)).replace("{axis}", "data" if is_copied else "fsdp")
