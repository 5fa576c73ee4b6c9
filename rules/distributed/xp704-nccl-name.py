"""The backend's name outside `init_process_group`: options, comparisons, `is_nccl_available`."""

import ast

from xlaport.analysis.folding import fold, outermost_condition
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
        yield availability(context, call)
    for call in context.calls("torch.distributed.get_default_backend_for_device"):
        ops = [*context.replace(call, '"xla"'), EnsureImport("xla_backend")]
        yield context.finding(call, "knows no backend for XLA", ops)


def availability(context: Context, call: ast.Call):
    """False, folded out of an `or`; what an `and` asks for besides NCCL is for a person to weigh."""
    top = outermost_condition(call)
    residue = fold(top, lambda part: False if part is call else None)
    if top is not call and residue.constant is False:
        return context.finding(call, "asks for NCCL among other things: decide what a TPU is to do here")
    return context.finding(
        call, "answers True in a CUDA build of torch without a GPU", context.replace(top, residue.template or str(residue.constant), **residue.holes)
    )


def in_group_call(context: Context, node: ast.Constant) -> bool:
    """`init_process_group` is replaced as a whole (XP703)."""
    return any(
        isinstance(parent, ast.Call) and context.refers(parent.func, "torch.distributed.init_process_group")
        for parent in syntax.ancestors(node)
    )


def check_torchtpu(context: Context):
    """The default backend of a device is known to torch there, so that question stays."""
    message = "the backend of TPU tensors is called {dist_backend}"
    for node in context.facts.of(ast.Constant):
        if node.value == "nccl" and not syntax.is_docstring(node) and not syntax.is_dead(node) and not in_group_call(context, node):
            quote = context.text(node)[0]
            yield context.finding(node, message, context.replace(node, quote + "{dist_backend}" + quote))
    for node in context.facts.of(ast.Attribute):
        if context.refers(node, "torch.distributed.Backend.NCCL"):
            yield context.finding(node, message, context.replace(node, '"{dist_backend}"'))
    for call in context.calls("torch.distributed.is_nccl_available"):
        yield availability(context, call)
