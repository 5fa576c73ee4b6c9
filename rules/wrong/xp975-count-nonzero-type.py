"""`count_nonzero` as a sum of a comparison."""

import ast

from xlaport.ruleset.api import Context, syntax


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "count_nonzero" and not syntax.is_dead(call):
            yield from finding_for(context, call)


def finding_for(context: Context, call: ast.Call):
    is_function = context.refers(call.func, "torch.count_nonzero")
    if not is_function and (context.names.qualified(call.func) or not isinstance(call.func, ast.Attribute)):
        return
    parts = call.args if is_function else [call.func.value, *call.args]
    if not 1 <= len(parts) <= 2 or any(item.arg != "dim" for item in call.keywords):
        yield context.finding(call)
        return
    dims = parts[1] if len(parts) == 2 else next((item.value for item in call.keywords), None)
    written = "" if dims is None else "{dim}" if len(parts) == 2 else "dim={dim}"
    holes = {"x": parts[0]} | ({"dim": dims} if dims is not None else {})
    yield context.finding(call, ops=context.replace(call, "({x} != 0).sum(" + written + ")", **holes))
