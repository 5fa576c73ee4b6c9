"""`x.amin()`, `x.sum(())`: no dimension is named, and XLA takes that by its word."""

import ast

from xlaport.ruleset.api import Context, syntax

WHOLE = {"amin": "min", "amax": "max"}
EMPTY = frozenset({"amin", "amax", "sum", "mean", "std", "var", "logsumexp", "std_mean", "var_mean", "vector_norm"})


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in EMPTY and not syntax.is_dead(call):
            yield from finding_for(context, call)


def finding_for(context: Context, call: ast.Call):
    name = call.func.attr
    is_function = any(called == f"torch.{name}" or called == f"torch.linalg.{name}" for called in context.names.qualified(call.func))
    if not is_function and context.names.qualified(call.func):
        return  # of another library
    after = call.args[1:] if is_function else call.args
    if any(isinstance(part, ast.Starred) for part in call.args) or any(item.arg is None for item in call.keywords):
        return
    dims = after[0] if after and name != "vector_norm" else next((item.value for item in call.keywords if item.arg in {"dim", "axis"}), None)
    if is_empty(dims):
        yield context.finding(call, ops=without_dims(context, call, dims) if name != "logsumexp" else None)
    elif dims is None and name in WHOLE:
        others = [item for item in call.keywords if item.arg != "input"]
        yield context.finding(call, ops=None if others else renamed(context, call))


def is_empty(dims: ast.expr | None) -> bool:
    return isinstance(dims, (ast.Tuple, ast.List)) and not dims.elts


def renamed(context: Context, call: ast.Call):
    """Only the name changes: `x.amin` to `x.min`."""
    owner = call.func
    return context.replace(owner, "{owner}." + WHOLE[owner.attr], owner=owner.value)


def without_dims(context: Context, call: ast.Call, dims: ast.expr):
    if any(item.arg == "keepdim" for item in call.keywords) or len(call.args) - (dims in call.args) > 1:
        return None
    place = [call.args.index(dims)] if dims in call.args else []
    keywords = [item.arg for item in call.keywords if item.value is dims]
    ops = context.edit_call(call, positions=place, remove=keywords)
    return [*ops, *renamed(context, call)] if call.func.attr in WHOLE else ops
