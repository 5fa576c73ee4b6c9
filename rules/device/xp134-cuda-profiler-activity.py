"""CUDA activities, columns and switches of torch's profilers."""

import ast

from xlaport.ruleset.api import Context, syntax

ACTIVITIES = ("torch.profiler.ProfilerActivity.CUDA", "torch.autograd.ProfilerActivity.CUDA", "torch._C._profiler.ProfilerActivity.CUDA")
OLD_PROFILERS = ("torch.autograd.profiler.profile", "torch.profiler.profile")
SORT_KEYS = {
    "cuda_time_total": "cpu_time_total", "self_cuda_time_total": "self_cpu_time_total", "cuda_time": "cpu_time",
    "cuda_memory_usage": "cpu_memory_usage", "self_cuda_memory_usage": "self_cpu_memory_usage",
    "self_cuda_time": "self_cpu_time",
}
READERS = {"table", "export_stacks", "key_averages", "sort"}


def check(context: Context):
    for node in context.uses(*ACTIVITIES):
        yield context.finding(node, "no data without a GPU; on XLA the profiler sees the host only", without_activity(context, node))
    for call in context.calls(*OLD_PROFILERS):
        if any(keyword.arg == "use_cuda" for keyword in call.keywords) and not syntax.is_dead(call):
            yield context.finding(call, "no CUDA times without a GPU", context.edit_call(call, remove=("use_cuda",)))
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and node.value in SORT_KEYS and is_sort_key(node) and not syntax.is_dead(node):
            quote = context.text(node)[-1]
            yield context.finding(node, "a column without data", context.replace(node, quote + SORT_KEYS[node.value] + quote))


def without_activity(context: Context, node: ast.expr):
    call = node.parent
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in {"append", "add"}:
        return context.remove(call.parent) if isinstance(call.parent, ast.Expr) else None
    holder = node.parent
    if isinstance(holder, (ast.List, ast.Tuple, ast.Set)) and len(holder.elts) == 1:
        if isinstance(holder.parent, ast.AugAssign):
            return context.remove(holder.parent)
        return context.replace(node, context.text(node).removesuffix("CUDA") + "CPU")
    return context.without_element(node)


def is_sort_key(node: ast.Constant) -> bool:
    call = node.parent.parent if isinstance(node.parent, ast.keyword) else node.parent
    if isinstance(node.parent, ast.keyword) and node.parent.arg in {"sort_by", "metric"}:
        return True
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in READERS


def check_torchtpu(context: Context):
    """TorchTPU's activity is that of an out-of-tree device."""
    for node in context.uses(*ACTIVITIES):
        yield context.finding(node, "no data without a GPU; a TPU is torch's PrivateUse1", context.replace(node, context.text(node).removesuffix("CUDA") + "PrivateUse1"))
    for call in context.calls(*OLD_PROFILERS):
        if any(keyword.arg == "use_cuda" for keyword in call.keywords) and not syntax.is_dead(call):
            yield context.finding(call, "no CUDA times without a GPU", context.edit_call(call, remove=("use_cuda",)))
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and node.value in SORT_KEYS and is_sort_key(node) and not syntax.is_dead(node):
            quote = context.text(node)[-1]
            key = node.value.replace("cuda", "device")  # torch's profiler names the columns of any accelerator so
            yield context.finding(node, "a column without data", context.replace(node, quote + key + quote))
