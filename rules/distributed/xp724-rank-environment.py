"""Ranks that a launcher put into the environment."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Mode, syntax

SHARDED = {
    "RANK": "xr.process_index()", "SLURM_PROCID": "xr.process_index()", "WORLD_SIZE": "xr.process_count()", "SLURM_NTASKS": "xr.process_count()",
    "LOCAL_RANK": "0", "SLURM_LOCALID": "0", "LOCAL_WORLD_SIZE": "1", "SLURM_NTASKS_PER_NODE": "1",
}
READERS = ("os.getenv", "os.environ.get")


def check(context: Context):
    if context.mode is not Mode.SPMD and not (context.mode is Mode.MP and context.on_device):
        return
    for node, name in reads(context):
        if context.mode is Mode.SPMD:
            yield context.finding(outermost(context, node), ops=sharded(context, node, name))
        elif name.startswith("SLURM_"):
            message = f"{name} numbers tasks, not chips: start one task a host and the workers in it, and ask xr.global_ordinal() once their group is there"
            yield context.finding(node, message, is_idiom=True)


def reads(context: Context):
    """Expressions that read one of the variables, or ask whether it is there."""
    for call in context.calls(*READERS):
        name = constant(call.args[0]) if call.args else None
        if name in SHARDED and not syntax.is_dead(call):
            yield call, name
    for node in context.facts.of(ast.Subscript):
        name = constant(node.slice)
        if name in SHARDED and isinstance(node.ctx, ast.Load) and context.refers(node.value, "os.environ") and not syntax.is_dead(node):
            yield node, name
    for node in context.facts.of(ast.Compare):
        name = constant(node.left)
        is_there = len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)) and context.refers(node.comparators[0], "os.environ")
        if is_there and name in SHARDED and not syntax.is_dead(node):
            yield node, name


def outermost(context: Context, node: ast.expr) -> ast.expr:
    """`int(os.environ["RANK"])` is one thing."""
    around = node.parent
    is_int = isinstance(around, ast.Call) and isinstance(around.func, ast.Name) and around.func.id == "int" and around.args == [node]
    return around if is_int else node


def sharded(context: Context, node: ast.expr, name: str):
    if isinstance(node, ast.Compare):
        return context.replace(node, str(isinstance(node.ops[0], ast.In)))
    whole = outermost(context, node)
    value = SHARDED[name]
    if whole is node:
        value = f"str({value})" if value.startswith("xr.") else f'"{value}"'
    return context.replace(whole, value)
