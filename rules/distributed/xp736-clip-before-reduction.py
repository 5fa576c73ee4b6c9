"""`clip_grad_norm_(...)` before `xm.optimizer_step(...)`."""

import ast

from xlaport.analysis import collectives, gradients
from xlaport.ruleset.api import Context, syntax

KEPT = frozenset({"barrier", "pin_layout"})


def check(context: Context):
    if not collectives.has_replicas(context.module):
        return
    for call in context.calls(collectives.XM + "optimizer_step"):
        if not call.args or syntax.is_dead(call):
            continue
        step = gradients.step_at(call, call.args[0])
        if gradients.averaged_at(context.training, step, gradients.is_reduction):
            continue
        places = gradients.averaged_at(context.training, step, gradients.is_clip)
        if places:
            yield context.finding(places[0][0], ops=reduced_first(context, places, call))


def reduced_first(context: Context, places: list[gradients.Place], step: ast.Call):
    statement, options = syntax.statement_of(step), {keyword.arg: keyword.value for keyword in step.keywords}
    if not isinstance(statement, ast.Expr) or not options.keys() <= KEPT or len(step.args) > 1:
        return None
    template, holes = "xm.reduce_gradients({optimizer})", {"optimizer": step.args[0]}
    if "pin_layout" in options:
        template, holes = "xm.reduce_gradients({optimizer}, pin_layout={pinned})", {**holes, "pinned": options["pin_layout"]}
    ops = [op for place, where in places for op in context.insert(place, where, template, **holes)]
    ops += context.replace(step, "{optimizer}.step()", optimizer=step.args[0])
    return ops + context.insert(statement, "after", "{sync}") if "barrier" in options else ops
