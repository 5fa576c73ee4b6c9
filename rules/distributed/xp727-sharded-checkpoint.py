"""`dcp.save`, `dcp.load` of a model and its optimizer."""

import ast
from collections.abc import Iterator

from xlaport.ruleset.api import Context, Mode, syntax

DCP = "torch.distributed.checkpoint."
SAVES = (DCP + "save", DCP + "async_save")
LOAD = DCP + "load"
STATES = {DCP + "state_dict." + name: index for name, index in (
    ("get_model_state_dict", 1), ("get_optimizer_state_dict", 2), ("get_state_dict", 2), ("set_model_state_dict", 1), ("set_optimizer_state_dict", 2), ("set_state_dict", 2),
)}
"""Functions that take the model, and the optimizer as well."""

OPTIM_STATE = "torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict"
STEPS = ("step", "global_step", "iteration", "iter_num", "epoch", "i")


def check(context: Context):
    if context.mode is not Mode.SPMD or not context.settings.runtime_library:
        return
    for call in context.calls(*SAVES, LOAD):
        if not syntax.is_dead(call):
            yield context.finding(call, ops=converted(context, call))


def converted(context: Context, call: ast.Call):
    function, path = syntax.enclosing_function(call), path_of(context, call)
    if function is None or path is None:
        return None
    models, optimizers = owners(context, function)
    if len(models) != 1 or len(optimizers) > 1:
        return None
    model, optimizer = *models.values(), next(iter(optimizers.values()), None)
    holes = {"model": model, "path": path, **({"optimizer": optimizer} if optimizer is not None else {})}
    second = "{optimizer}" if optimizer is not None else "None"
    if not isinstance(call.parent, (ast.Expr, ast.Assign)):
        return None
    leftovers = [op for statement in only_for(context, function, call) for op in context.remove(statement)]
    if context.refers(call.func, LOAD):
        return context.replace(call, f"fsdp.load({{model}}, {second}, {{path}})", **holes) + leftovers
    later = ", asynchronous=True" if context.text(call.func).endswith("async_save") else ""
    return context.replace(call, f"fsdp.save({{model}}, {second}, {step_in(function)}, {{path}}{later})", **holes) + leftovers


def path_of(context: Context, call: ast.Call) -> ast.expr | None:
    given = syntax.argument(call, "checkpoint_id")
    if given is not None:
        return given
    storage = syntax.argument(call, "storage_writer") or syntax.argument(call, "storage_reader")
    return storage.args[0] if isinstance(storage, ast.Call) and storage.args else None


def owners(context: Context, function: ast.AST) -> tuple[dict[str, ast.expr], dict[str, ast.expr]]:
    """Whose state the function asks for or sets: models and optimizers, by their text."""
    models, optimizers = {}, {}
    for node in syntax.own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        names = context.names.qualified(node.func)
        takes = next((STATES[name] for name in names if name in STATES), 2 if OPTIM_STATE in names else 0)
        if takes:
            model, optimizer = syntax.argument(node, "model", 0), syntax.argument(node, "optimizers", 1) or syntax.argument(node, "optim")
            models |= {context.text(model): model} if model is not None else {}
            optimizers |= {context.text(optimizer): optimizer} if optimizer is not None and takes == 2 else {}
        elif isinstance(node.func, ast.Attribute) and node.func.attr in {"state_dict", "load_state_dict"} and not names:
            owner = node.func.value
            is_optimizer = context.training.is_optimizer(owner)
            (optimizers if is_optimizer else models)[context.text(owner)] = owner
    return models, optimizers


def only_for(context: Context, function: ast.AST, call: ast.Call) -> Iterator[ast.stmt]:
    """`state = {...}` that the call alone was given, and what sets it again behind a load."""
    state = syntax.argument(call, "state_dict", 0)
    if not isinstance(state, ast.Name):
        return
    holders = [binding.node for binding in context.names.bindings(state)]
    uses = [node for node in syntax.own_nodes(function) if isinstance(node, ast.Name) and node.id == state.id and isinstance(node.ctx, ast.Load) and node is not state]
    setters = [syntax.statement_of(use) for use in uses]
    if len(holders) != 1 or not isinstance(holders[0], ast.Assign) or len(holders[0].targets) != 1 or holders[0].parent is not function:
        return
    if all(is_setter(context, statement) for statement in setters):
        yield holders[0]
        yield from dict.fromkeys(setters)


def is_setter(context: Context, statement: ast.stmt) -> bool:
    """`model.load_state_dict(...)`, `set_state_dict(...)` as a statement."""
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call):
        return False
    return isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" or any(name in STATES for name in context.names.qualified(call.func))


def step_in(function: ast.AST) -> str:
    known = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)} | {node.id for node in syntax.own_nodes(function) if isinstance(node, ast.Name)}
    return next((name for name in STEPS if name in known), "0")
