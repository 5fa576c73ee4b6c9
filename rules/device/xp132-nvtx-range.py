"""NVTX ranges and marks, of torch and of the package `nvtx`."""

import ast

from xlaport.ruleset.api import Context, Danger, Severity

RANGES = ("torch.cuda.nvtx.range", "nvtx.annotate")
OTHERS = (
    "torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range_pop", "torch.cuda.nvtx.mark", "torch.cuda.nvtx.range_start",
    "torch.cuda.nvtx.range_end", "nvtx.push_range", "nvtx.pop_range", "nvtx.mark", "nvtx.start_range", "nvtx.end_range",
    "nvtx.profile", "torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt",
)


def check(context: Context):
    for node in context.uses(*RANGES, *OTHERS):
        ops = edit(context, node)
        if ops is not None:
            yield context.finding(node, "read by NVIDIA's profilers only", ops)
        else:
            yield context.finding(node, "read by NVIDIA's profilers only: remove it, or use {trace}(name)", danger=Danger.LOUD, severity=Severity.WARNING)


def edit(context: Context, node: ast.expr):
    if not isinstance(node, ast.Call):
        return context.drop(node) if node in getattr(node.parent, "decorator_list", ()) else None
    if isinstance(node.parent, ast.withitem) and node.parent.optional_vars is not None:
        return None
    if isinstance(node.parent, ast.withitem) and context.refers(node.func, *RANGES) and len(node.args) == 1 and not node.keywords:
        return context.replace(node, "{trace}({name})", name=node.args[0])
    return context.drop(node)
