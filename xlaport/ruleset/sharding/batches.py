"""Batches that a loop puts on the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from xlaport.ruleset.api import Context, syntax

MOVES = frozenset({"to", "cuda"})
MARKS = ("torch_xla.distributed.spmd.mark_sharding", "xlaport.runtime.fsdp.shard_batch")


@dataclass(frozen=True)
class Batch:
    """`statement` gives `target` its place on the device; `is_nest`: a dict or list of tensors, not one."""

    statement: ast.stmt
    target: ast.Name | ast.Subscript
    is_nest: bool


def found(context: Context) -> Iterator[Batch]:
    """Those of this file that no mark follows."""
    for block in bodies(context):
        marked = {name for statement in block for call in ast.walk(statement) if is_mark(context, call) for name in marked_by(call)}
        for statement in assignments(block):
            yield from (batch for batch in put_on_device(statement) if ast.unparse(batch.target) not in marked)


def assignments(block: list[ast.stmt]) -> Iterator[ast.Assign]:
    """Also in branches, and in loops over the parts of a batch: `for key in batch: batch[key] = batch[key].to(device)`."""
    for statement in block:
        if isinstance(statement, ast.Assign):
            yield statement
        elif isinstance(statement, (ast.If, ast.With, ast.For)):
            is_of_steps = isinstance(statement, ast.For) and any(isinstance(node, ast.Attribute) and node.attr in {"step", "backward"} for node in ast.walk(statement))
            yield from () if is_of_steps else assignments([*statement.body, *getattr(statement, "orelse", ())])


def is_mark(context: Context, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and context.refers(node.func, *MARKS)


def marked_by(call: ast.Call) -> Iterator[str]:
    """The tensor itself, and the dict whose values a loop around the mark goes through."""
    yield ast.unparse(call.args[0])
    loop = syntax.enclosing(call, ast.For)
    if loop is not None:
        yield ast.unparse(loop.iter).removesuffix(".values()")


def bodies(context: Context) -> list[list[ast.stmt]]:
    """Bodies of loops that train or evaluate, and of functions that make one step."""
    training = context.training
    homes = [step.loop or syntax.enclosing_function(step.call) for step in training.steps]
    homes += [*training.evaluation_loops, *training.batch_loops, *training.loops_without_end]
    return [home.body for home in dict.fromkeys(homes) if home is not None and isinstance(home.body, list)]


def put_on_device(statement: ast.Assign) -> Iterator[Batch]:
    if len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts))
    else:
        pairs = [(target, value)]
    for name, moved in pairs:
        if isinstance(name, (ast.Name, ast.Subscript)):
            if is_put(moved):
                yield Batch(statement, name, is_nest=False)
            elif isinstance(moved, ast.DictComp) and is_put(moved.value):
                yield Batch(statement, name, is_nest=True)
        elif isinstance(name, ast.Tuple) and isinstance(moved, (ast.GeneratorExp, ast.ListComp)) and is_put(moved.elt):
            yield from (Batch(statement, part, is_nest=False) for part in name.elts if isinstance(part, ast.Name))


def is_put(value: ast.expr) -> bool:
    """`x.to(device)`, `x.cuda()`, `torch.randint(..., device=device)`."""
    if not isinstance(value, ast.Call):
        return False
    is_move = isinstance(value.func, ast.Attribute) and value.func.attr in MOVES
    return is_move or any(keyword.arg == "device" for keyword in value.keywords)
