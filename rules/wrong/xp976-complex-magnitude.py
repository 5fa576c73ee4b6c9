"""`z.abs()` of a complex tensor."""

import ast

from xlaport.ruleset.api import Context, syntax

MAKERS = frozenset({"torch.complex", "torch.polar", "torch.view_as_complex"}) | {
    f"torch.fft.{name}" for name in ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn")
}


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        value = magnitude_of(context, call)
        if value is not None and not syntax.is_dead(call) and is_complex(context, value) and not is_taken_real(call):
            yield context.finding(call, ops=context.wrap(call, "{call}.real"))


def magnitude_of(context: Context, call: ast.Call) -> ast.expr | None:
    if context.refers(call.func, "torch.abs", "torch.absolute") and call.args:
        return call.args[0]
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"abs", "absolute"} and not call.args:
        return call.func.value
    return None


def is_complex(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        bindings = context.names.bindings(node)
        return bool(bindings) and all(isinstance(binding.value, ast.Call) and is_made(context, binding.value) for binding in bindings)
    return isinstance(node, ast.Call) and is_made(context, node)


def is_made(context: Context, call: ast.Call) -> bool:
    if context.refers(call.func, "torch.stft"):
        return any(item.arg == "return_complex" and getattr(item.value, "value", None) is True for item in call.keywords)
    return context.refers(call.func, *MAKERS)


def is_taken_real(call: ast.Call) -> bool:
    return isinstance(call.parent, ast.Attribute) and call.parent.attr == "real"
