"""Ends the iteration where an optimizer steps."""

import ast

from xlaport.analysis.training import Step, contains, is_sync
from xlaport.ruleset.api import Context, Mode, syntax

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


def check(context: Context):
    if not context.on_device or context.training.uses_framework:
        return
    for step in context.training.steps:
        if is_lbfgs(context, step.optimizer) or is_ported(context, step):
            continue  # XP207 speaks of the former
        yield finding_for(context, step)


def is_ported(context: Context, step: Step) -> bool:
    """A step that stays `optimizer.step()` in the port: reduced before, or followed by a sync."""
    if step.scaler is not None:
        return False
    name = ast.unparse(step.optimizer)
    reduced = context.calls("torch_xla.core.xla_model.reduce_gradients")
    if any(call.args and ast.unparse(call.args[0]) == name for call in reduced):
        return True
    statement = syntax.statement_of(step.call)
    return context.mode in (Mode.SPMD, Mode.KEEP) and (syncs_next(context, statement) or loop_syncs(context, step))


def loop_syncs(context: Context, step: Step) -> bool:
    return step.loop is not None and any(is_sync(statement, context.names) for statement in step.loop.body)


def is_lbfgs(context: Context, optimizer: ast.expr) -> bool:
    return any(name.endswith("optim.LBFGS") for name in context.values.constructors(optimizer))


def finding_for(context: Context, step: Step):
    message = "nothing runs on XLA until the step ends"
    if context.mode in (Mode.SPMD, Mode.KEEP):
        return context.finding(step.call, message, plain_step(context, step))
    clip = clip_before(context, step) if context.mode is Mode.MP else None
    if clip is not None:
        return context.finding(step.call, "gradients are averaged before they are clipped", clipped_step(context, step, clip))
    return context.finding(step.call, message, xla_step(context, step))


def xla_step(context: Context, step: Step):
    template, holes = "xm.optimizer_step({optimizer}", {"optimizer": step.optimizer}
    closure = closure_of(step)
    if closure is not None:
        template += ', optimizer_args={"closure": {closure}}'
        holes["closure"] = closure
    if step.ends_iteration:
        template += ", barrier=True"
    return context.replace(step.call, template + ")", **holes)


def closure_of(step: Step) -> ast.expr | None:
    if step.scaler is not None:
        return None
    if step.call.args:
        return step.call.args[0]
    return syntax.argument(step.call, "closure")


def plain_step(context: Context, step: Step):
    """The optimizer's own step, and a sync behind it: nothing is left to reduce."""
    ops = context.replace(step.call, "{optimizer}.step()", optimizer=step.optimizer) if step.scaler is not None else []
    statement = syntax.statement_of(step.call)
    if step.ends_iteration and isinstance(statement, ast.Expr) and not syncs_next(context, statement):
        ops += context.insert(statement, "after", "{sync}")
    return ops or None


def syncs_next(context: Context, statement: ast.stmt) -> bool:
    return any(is_sync(later, context.names) for later in syntax.following(statement))


def clip_before(context: Context, step: Step) -> ast.stmt | None:
    """The statement, in the step's block, that clips the gradients before the step."""
    statement = syntax.statement_of(step.call)
    while isinstance(statement, ast.stmt):
        block = syntax.block_of(statement)
        for earlier in block[: block.index(statement)]:
            if any(contains(earlier, call) for call in context.calls(*CLIPS)):
                return earlier
        if statement.parent is step.loop or not isinstance(statement.parent, (ast.If, ast.With)):
            return None
        statement = statement.parent
    return None


def clipped_step(context: Context, step: Step, clip: ast.stmt):
    ops = context.insert(clip, "before", "xm.reduce_gradients({optimizer})", optimizer=step.optimizer)
    if step.scaler is not None:
        ops += context.replace(step.call, "{optimizer}.step()", optimizer=step.optimizer)
    if step.ends_iteration:
        ops += context.insert(syntax.statement_of(step.call), "after", "{sync}")
    return ops
