"""Both random streams are seeded: the host's and the device's."""

import ast

from xlaport.analysis import devices, workers
from xlaport.ruleset.api import Context, syntax

HOST = ("torch.manual_seed", "torch.random.manual_seed")
CUDA = ("torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.cuda.random.manual_seed", "torch.cuda.random.manual_seed_all")

DEVICE = ("torch_xla.manual_seed", "torch_xla.core.xla_model.set_rng_state")


def check(context: Context):
    if not context.on_device:
        return
    done = {scope_of(call) for call in context.calls(*DEVICE)}
    for call in context.calls(*CUDA):
        if syntax.is_dead(call) or not seed_of(call):
            continue
        scope = scope_of(call)
        if devices.runs_before_workers(call, context.module, context.project):
            ops = [] if scope in done else in_worker(context, call)
            done.add(scope)
            dropped = context.drop(call)
            yield context.finding(call, "workers seed themselves, and the device may not be touched before they start", dropped and dropped + ops)
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
        done.add(scope)
        yield from host_seed(context, call)


def host_seed(context: Context, call: ast.Call):
    if devices.runs_before_workers(call, context.module, context.project):
        ops = in_worker(context, call)
        if ops:
            yield context.finding(call, "seeds the host's stream only, also where the worker is called plainly", ops)
        return
    early = list(calls_before_workers(context, call))
    if early and all(early):
        return
    if any(early):
        yield context.finding(call, "called before the workers start, where the device may not be touched, and elsewhere: seed the device in the worker")
    else:
        yield context.finding(call, "seeds the host's stream only", seed_both(context, call))


def calls_before_workers(context: Context, call: ast.Call):
    """For each call of the function around, whether it runs before workers start."""
    function = syntax.enclosing_function(call)
    if isinstance(function, ast.FunctionDef) and devices.starts_processes(context.module, context.project):
        for module, other in context.project.calls_of(context.module.source.path, function.name):
            yield devices.runs_before_workers(other, module, context.project)


def in_worker(context: Context, call: ast.Call):
    """The device is seeded under the same conditions by the worker: once it has joined its process group, or where it is called plainly.

    On CUDA a started worker does not inherit the seed. All of them begin with one default seed, here with another.
    """
    scope = scope_of(call)
    start = workers.start_in(scope, context.module)
    statement = syntax.statement_of(call)
    conditions = [parent for parent in syntax.ancestors(call) if isinstance(parent, ast.If) and scope in syntax.ancestors(parent)]
    if start is None or not is_pure(seed_of(call)) or not all(is_pure(parent.test) and is_in_body(statement, parent) for parent in conditions):
        return []
    plain = [node for node in ast.walk(scope) if workers.is_call_of(node, start.worker)]
    if not plain or any(syntax.enclosing_function(other) is start.worker for other in context.calls(*HOST, *CUDA, *DEVICE)):
        return []
    group = workers.joining(start.worker, context.module)
    tests = [parent.test for parent in reversed(conditions)]
    if group is None:
        return [op for node in plain for op in seeded(context, syntax.statement_of(node), "before", ast.unparse(seed_of(call)), map(ast.unparse, tests))]
    value, *known = map(start.in_worker, [seed_of(call), *tests])
    if value is None or None in known:
        return []
    return seeded(context, workers.body_statement(group, start.worker), "after", value, known)


def seeded(context: Context, statement: ast.stmt, where: str, value: str, tests):
    condition = " and ".join(tests)
    code = f"{context.target.expand('{seed}')}({value})"
    return context.insert(statement, where, f"if {condition}:\n    {code}" if condition else code)


def is_in_body(statement: ast.stmt, condition: ast.If) -> bool:
    return any(node is statement for other in condition.body for node in ast.walk(other))


def scope_of(call: ast.Call) -> ast.AST:
    return syntax.enclosing_scope(call)


def seed_of(call: ast.Call) -> ast.expr | None:
    return syntax.argument(call, "seed", 0)


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


def check_torchtpu(context: Context):
    """`torch.manual_seed` hands the seed to the TPU as it does to CUDA."""
    seeded = {scope_of(call) for call in context.calls(*HOST)}
    for call in context.calls(*CUDA):
        if syntax.is_dead(call) or not seed_of(call):
            continue
        if scope_of(call) in seeded:
            ops = context.drop(call)
            yield context.finding(call, "torch.manual_seed seeds the TPU already", ops if ops else context.replace(call, "{seed}({value})", value=seed_of(call)))
            continue
        seeded.add(scope_of(call))
        yield context.finding(call, "seeds a CUDA stream", context.replace(call, "{seed}({value})", value=seed_of(call)))
