"""Calls that start and stop NVIDIA's profiler, and the CUDA runtime behind them."""

import ast

from xlaport.ruleset.api import Context

CONTROL = ("torch.cuda.profiler.start", "torch.cuda.profiler.stop", "torch.cuda.profiler.init", "torch.cuda.profiler.profile")
RUNTIME = ("torch.cuda.cudart", "torch.cuda.check_error")


def check(context: Context):
    for node in context.uses(*CONTROL):
        has_name = isinstance(node.parent, ast.withitem) and node.parent.optional_vars is not None
        ops = context.drop(node) if isinstance(node, ast.Call) and not has_name else None
        yield context.finding(node, "raises without a GPU: xp.start_trace(folder) and xp.stop_trace() profile a TPU", ops)
    for node in context.uses(*RUNTIME):
        outer = method_call(node)
        if outer is not None and isinstance(outer.parent, ast.Expr):
            yield context.finding(outer, "a call of the CUDA runtime, which raises without a GPU", context.remove(outer.parent))
        elif outer is None and isinstance(node.parent, ast.Expr):
            yield context.finding(node, "a call of the CUDA runtime, which raises without a GPU", context.remove(node.parent))
        else:
            yield context.finding(node, "the CUDA runtime, which raises without a GPU: take out what uses it")


def method_call(node: ast.expr) -> ast.Call | None:
    """`cudart().cudaProfilerStart()` around `cudart()`."""
    method = node.parent
    if isinstance(method, ast.Attribute) and isinstance(method.parent, ast.Call) and method.parent.func is method:
        return method.parent
    return None
