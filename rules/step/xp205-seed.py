"""Both random streams are seeded: the host's and the device's."""

import ast

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, syntax

HOST = ("torch.manual_seed", "torch.random.manual_seed")
CUDA = ("torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.cuda.random.manual_seed", "torch.cuda.random.manual_seed_all")


def check(context: Context):
    if not context.on_device:
        return
    done = {scope_of(call) for call in context.calls("torch_xla.manual_seed", "torch_xla.core.xla_model.set_rng_state")}
    for call in context.calls(*CUDA):
        if syntax.is_dead(call) or not seed_of(call):
            continue
        scope = scope_of(call)
        if devices.runs_before_workers(call, context.module, context.project):
            yield context.finding(call, "workers seed themselves, and the device may not be touched before they start", context.drop(call))
            continue
        if scope in done:
            yield context.finding(call, "the device's stream is seeded already", context.drop(call))
            continue
        done.add(scope)
        yield context.finding(call, "seeds a CUDA stream", context.replace(call, "{seed}({value})", value=seed_of(call)))
    for call in context.calls(*HOST):
        scope = scope_of(call)
        if scope in done or syntax.is_dead(call) or not seed_of(call):
            continue
        if devices.runs_before_workers(call, context.module, context.project):
            continue  # a started worker does not inherit it, on CUDA as little as here
        done.add(scope)
        yield context.finding(call, "seeds the host's stream only", seed_both(context, call))


def scope_of(call: ast.Call) -> ast.AST:
    return syntax.enclosing_scope(call)


def seed_of(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "seed"), None)


def seed_both(context: Context, call: ast.Call):
    statement = syntax.statement_of(call)
    if not isinstance(statement, ast.Expr):
        where, code, holes = "before", "{seed}({value})", {"value": seed_of(call)}
        return context.insert(statement, where, code, **holes) if is_pure(seed_of(call)) and can_precede(statement) else None
    if is_pure(seed_of(call)):
        return context.insert(statement, "after", "{seed}({value})", value=seed_of(call))
    return context.insert(statement, "after", "{seed}(torch.initial_seed())")


def is_pure(node: ast.expr) -> bool:
    """Reading it twice gives the same value: no call in it, but for conversions such as `int(x)`."""
    calls = [child for child in ast.walk(node) if isinstance(child, (ast.Call, ast.NamedExpr, ast.Await))]
    return all(isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in {"int", "abs", "str", "hash", "len"} for child in calls)


def can_precede(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return))
