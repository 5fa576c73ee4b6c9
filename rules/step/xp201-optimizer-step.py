"""Ends the iteration where an optimizer steps."""

import ast

from xlaport.analysis import gradients
from xlaport.analysis.parallel import exchanges_by_hand, has_unpinned_collectives
from xlaport.analysis.training import Step, is_sync
from xlaport.ruleset.api import Context, Mode, syntax
from xlaport.ruleset.averaging import fresh

NOTHING_RUNS = "nothing runs on XLA until the step ends"
BY_HAND = NOTHING_RUNS + "; the program has a process group and no DistributedDataParallel: nothing is added that averages gradients"


def check(context: Context):
    if not context.on_device or context.training.uses_framework:
        return
    averaged: set[tuple[gradients.Place, str]] = set()
    for step in context.training.steps:
        if is_lbfgs(context, step.optimizer) or is_ported(context, step):
            continue  # XP207 speaks of the former
        yield finding_for(context, step, averaged)
    if context.mode is Mode.MP and not keeps_step(context):
        yield from of_callers(context)


def of_callers(context: Context):
    """`clip(model)` above a call of the function that steps, which others may call too: it averages once more, what is equal by then."""
    for call, optimizer in gradients.stepping_calls(context.module):
        step = gradients.step_at(call, optimizer, ends_iteration=False)
        places = gradients.averaged_at(context.training, step, gradients.is_use)
        if places and not gradients.averaged_at(context.training, step, gradients.is_reduction):
            message = "gradients are averaged before they are used, and once more where the optimizer steps, which changes nothing"
            yield context.finding(call, message, averaged_at(context, places, ast.unparse(optimizer), own_storage(context, step, ast.unparse(optimizer))))


def is_ported(context: Context, step: Step) -> bool:
    """A step that stays `optimizer.step()` in the port: reduced before, or followed by a sync."""
    if step.scaler is not None:
        return False
    name = ast.unparse(step.optimizer)
    reduced = context.calls("torch_xla.core.xla_model.reduce_gradients")
    if any(call.args and ast.unparse(call.args[0]) == name for call in reduced):
        return True
    statement = syntax.statement_of(step.call)
    return keeps_step(context) and (syncs_next(context, statement) or loop_syncs(context, step))


def keeps_step(context: Context) -> bool:
    """Nothing averages gradients over replicas where the step is: the compiler or the wrapper does, or the program itself, or nobody."""
    return context.mode in (Mode.SPMD, Mode.KEEP) or exchanges_by_hand(context.module, context.project)


def loop_syncs(context: Context, step: Step) -> bool:
    return step.loop is not None and any(is_sync(statement, context.names) for statement in step.loop.body)


def is_lbfgs(context: Context, optimizer: ast.expr) -> bool:
    return any(name.endswith("optim.LBFGS") for name in context.values.constructors(optimizer))


def finding_for(context: Context, step: Step, averaged: set[tuple[gradients.Place, str]]):
    if context.mode in (Mode.SPMD, Mode.KEEP):
        return context.finding(step.call, NOTHING_RUNS, plain_step(context, step))
    if exchanges_by_hand(context.module, context.project):
        return context.finding(step.call, BY_HAND, plain_step(context, step))
    places = gradients.averaged_at(context.training, step, gradients.is_use) if context.mode is Mode.MP and closure_of(step) is None else []
    if places:
        optimizer = ast.unparse(step.optimizer)
        missing = [place for place in places if (place, optimizer) not in averaged]  # two steps in branches share what is before them
        averaged.update((place, optimizer) for place in missing)
        ops = [*averaged_at(context, missing, optimizer, own_storage(context, step, optimizer)), *(plain_step(context, step) or ())]
        return context.finding(step.call, "gradients are averaged before they are used", ops)
    return context.finding(step.call, NOTHING_RUNS, [*own_gradients(context, step), *xla_step(context, step)])


def own_storage(context: Context, step: Step, optimizer: str) -> str:
    """Statements before an average of gradients, where they may have been accumulated in place."""
    return fresh(optimizer) if gradients.may_accumulate(context.training, step, steps_with(context, step)) else ""


def steps_with(context: Context, step: Step) -> list[ast.Call]:
    return [step.call, *(other.call for other in context.training.steps)]


def own_gradients(context: Context, step: Step):
    code = own_storage(context, step, ast.unparse(step.optimizer)) if context.mode is Mode.MP and closure_of(step) is None else ""
    return context.insert(syntax.statement_of(step.call), "before", code) if code else []


def xla_step(context: Context, step: Step):
    template, holes = "xm.optimizer_step({optimizer}", {"optimizer": step.optimizer}
    closure = closure_of(step)
    if closure is not None:
        template += ', optimizer_args={"closure": {closure}}'
        holes["closure"] = closure
    if step.ends_iteration:
        template += ", barrier=True"
    if has_unpinned_collectives(context.module, context.project):
        template += ", pin_layout=False"
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
    if step.ends_iteration and not isinstance(statement, ast.Return) and not syncs_next(context, statement):
        ops += context.insert(statement, "after", "{sync}")
    return ops or None


def syncs_next(context: Context, statement: ast.stmt) -> bool:
    return any(is_sync(later, context.names) for later in syntax.following(statement))


def averaged_at(context: Context, places: list[gradients.Place], optimizer: str, first: str):
    pinned = ", pin_layout=False" if has_unpinned_collectives(context.module, context.project) else ""
    code = "\n".join(filter(None, (first, f"xm.reduce_gradients({optimizer}{pinned})")))
    return [op for statement, where in places for op in context.insert(statement, where, code)]
