"""The backend's name outside `init_process_group`: options, comparisons, `is_nccl_available`."""

import ast

from xlaport.ruleset.api import Context, EnsureImport, syntax


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        if node.value == "nccl" and not syntax.is_docstring(node) and not syntax.is_dead(node) and not in_group_call(context, node):
            quote = context.text(node)[0]
            yield context.finding(node, "the backend of XLA tensors is called xla", context.replace(node, f"{quote}xla{quote}"))
    for node in context.facts.of(ast.Attribute):
        if context.refers(node, "torch.distributed.Backend.NCCL"):
            yield context.finding(node, "the backend of XLA tensors is called xla", context.replace(node, '"xla"'))
    for call in context.calls("torch.distributed.is_nccl_available"):
        yield context.finding(call, "answers True in a CUDA build of torch without a GPU", context.replace(call, "False"))
    for call in context.calls("torch.distributed.get_default_backend_for_device"):
        ops = [*context.replace(call, '"xla"'), EnsureImport("xla_backend")]
        yield context.finding(call, "knows no backend for XLA", ops)


def in_group_call(context: Context, node: ast.Constant) -> bool:
    """`init_process_group` is replaced as a whole (XP703)."""
    return any(
        isinstance(parent, ast.Call) and context.refers(parent.func, "torch.distributed.init_process_group")
        for parent in syntax.ancestors(node)
    )
