"""`clip_grad_norm_(...)` above `xm.optimizer_step(...)`."""

import ast

from xlaport.analysis import collectives
from xlaport.ruleset.api import Context, syntax

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad.clip_grad_norm_")


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    for step in context.calls(collectives.XM + "optimizer_step"):
        statement = syntax.statement_of(step)
        block = syntax.block_of(statement)
        before = block[: block.index(statement)]
        if not step.args or syntax.is_dead(step) or any(has_call(context, item, collectives.XM + "reduce_gradients") for item in before):
            continue
        clip = next((item for item in before if has_call(context, item, *CLIPS)), None)
        if clip is not None:
            yield context.finding(clip, ops=reduced_first(context, clip, statement, step))


def has_call(context: Context, statement: ast.stmt, *names: str) -> bool:
    return any(isinstance(node, ast.Call) and context.refers(node.func, *names) for node in ast.walk(statement))


def reduced_first(context: Context, clip: ast.stmt, statement: ast.stmt, step: ast.Call):
    if not isinstance(statement, ast.Expr) or any(keyword.arg not in {"barrier"} for keyword in step.keywords) or len(step.args) > 1:
        return None
    ops = context.insert(clip, "before", "xm.reduce_gradients({optimizer})", optimizer=step.args[0])
    ops += context.replace(step, "{optimizer}.step()", optimizer=step.args[0])
    return ops + context.insert(statement, "after", "{sync}") if step.keywords else ops
