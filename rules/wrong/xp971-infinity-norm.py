"""`x.norm(float("inf"))` as `torch.linalg.vector_norm`."""

import ast

from xlaport.ruleset.api import Context, syntax

INFINITE = ("torch.inf", "math.inf", "numpy.inf")


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in {"norm", "normalize"} or syntax.is_dead(call):
            continue
        order = order_of(context, call)
        if order is not None and is_infinite(context, order):
            yield context.finding(call, ops=by_vector_norm(context, call, order) if name == "norm" else None)


def order_of(context: Context, call: ast.Call) -> ast.expr | None:
    """The argument `p` of `torch.norm`, `F.normalize` or of the method; the norms of `torch.linalg` and NumPy are others."""
    is_function = context.refers(call.func, "torch.norm", "torch.functional.norm", "torch.nn.functional.normalize")
    if not is_function and (context.names.qualified(call.func) or not isinstance(call.func, ast.Attribute)):
        return None
    position = 1 if is_function else 0
    if position < len(call.args):
        return call.args[position]
    return syntax.argument(call, "p")


def is_infinite(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return is_infinite(context, node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
        text = node.args[0]
        return isinstance(text, ast.Constant) and str(text.value).lower().lstrip("+-") in {"inf", "infinity"}
    return context.refers(node, *INFINITE) or isinstance(node, ast.Constant) and node.value in ("inf", "-inf")


def by_vector_norm(context: Context, call: ast.Call, order: ast.expr):
    is_function = context.refers(call.func, "torch.norm", "torch.functional.norm")
    others = [part for part in call.args if part is not order]
    tensor = others[0] if is_function and others else call.func.value if not is_function else None
    rest = others[1:] if is_function else others
    keywords = [item for item in call.keywords if item.value is not order]
    if tensor is None or rest or any(item.arg not in {"dim", "keepdim"} for item in keywords) or isinstance(order, ast.Constant):
        return None
    template = "torch.linalg.vector_norm({x}, {order}" + "".join(f", {item.arg}={{{item.arg}}}" for item in keywords) + ")"
    return context.replace(call, template, x=tensor, order=order, **{item.arg: item.value for item in keywords})
