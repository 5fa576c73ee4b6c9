"""`data[i : i + n]` with an `i` that moves: a graph for each offset."""

import ast

from xlaport.ruleset.api import Context, Kind, syntax


def check(context: Context):
    if not context.on_device:
        return
    for node in context.facts.of(ast.Subscript):
        if isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load) and not syntax.is_dead(node):
            moving = moving_offset(context, node.slice)
            if moving is not None and is_on_device(context, node.value):
                yield context.finding(node, ops=by_index(context, node, moving))


def moving_offset(context: Context, window: ast.Slice) -> ast.Name | None:
    """The loop counter in the lower bound, or a parameter that callers fill with one."""
    if window.lower is None or window.step is not None:
        return None
    for name in ast.walk(window.lower):
        if isinstance(name, ast.Name) and counts(context, name):
            return name
    return None


def counts(context: Context, name: ast.Name) -> bool:
    for binding in context.names.bindings(name):
        if binding.how == "loop":
            return Kind.INT in context.values.kind(name)
        if binding.how == "parameter" and Kind.INT in context.values.kind(name):
            return any(
                isinstance(argument, ast.Name) and any(b.how == "loop" for b in module.names.bindings(argument))
                for module, argument in context.values.arguments_of(binding.node)
            )
    return False


def is_on_device(context: Context, value: ast.expr) -> bool:
    """Moved to a device where it was made, as far as can be seen: by `.to(...)` or `.cuda()`, here, in a caller, in a helper."""
    return any(
        isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in {"to", "cuda"}
        for made in context.values.origins(value)
    )


def by_index(context: Context, node: ast.Subscript, moving: ast.Name):
    """`x[i : i + n]` as `x.index_select(0, arange(n) + i)`: the offset becomes a value, the length stays a shape."""
    upper, lower = node.slice.upper, node.slice.lower
    is_window = (
        isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add) and ast.unparse(upper.left) == ast.unparse(lower)
    )
    if not is_window:
        return None
    template = "{x}.index_select(0, torch.arange({n}, device={x}.device) + {i})"
    return context.replace(node, template, x=node.value, n=upper.right, i=lower)
