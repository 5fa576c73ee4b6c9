"""Precision switches of CUDA, which XLA does not read."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Danger, Severity, syntax

SETTER = "torch.set_float32_matmul_precision"
MATMUL = ("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cuda.matmul.fp32_precision", "torch.backends.fp32_precision")
OTHERS = (
    "torch.backends.cudnn.allow_tf32", "torch.backends.cudnn.fp32_precision", "torch.backends.cudnn.conv.fp32_precision",
    "torch.backends.cudnn.rnn.fp32_precision", "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction", "torch.backends.cuda.matmul.allow_fp16_accumulation",
)
"""Switches of convolutions and of sums inside a product: XLA has one setting for all, so they only fall away."""

LEVELS = {True: "high", False: "highest", "tf32": "high", "ieee": "highest", "medium": "default", "high": "high", "highest": "highest"}
EXACT = "highest"


def check(context: Context):
    for call in context.calls(SETTER):
        if call.args and not syntax.is_dead(call):
            yield finding_for(context, call, call.args[0])
    for node in context.facts.of(ast.Attribute):
        if context.refers(node, *MATMUL, *OTHERS) and is_assigned(node) and not syntax.is_dead(node):
            yield finding_for(context, node, node.parent.value)


def is_assigned(node: ast.Attribute) -> bool:
    return isinstance(node.parent, ast.Assign) and node.parent.targets == [node]


def finding_for(context: Context, node: ast.expr, value: ast.expr):
    level = LEVELS.get(constant(value))
    if level is None:
        return context.finding(node, "this precision switch does not reach XLA: use torch_xla.backends.set_mat_mul_precision")
    ops = in_place(context, node, level)
    if level == EXACT:
        message = "float32 products are not exact on TPU by default: torch_xla.backends.set_mat_mul_precision says so"
        return context.finding(node, message, ops)
    message = "no effect on XLA, whose default is the fast, least precise product already"
    return context.finding(node, message, ops, severity=Severity.NOTE, danger=Danger.NONE)


def in_place(context: Context, node: ast.expr, level: str):
    statement = syntax.statement_of(node)
    if isinstance(node, ast.Call) and node.parent is not statement:
        return None
    if context.refers(node, *OTHERS):
        return context.remove(statement)
    code = f'torch_xla.backends.set_mat_mul_precision("{level}")'
    return [*context.replace_statement(statement, code)[:1], *context.ensure("xla_backends")]  # `import torch_xla` does not bring it


def check_torchtpu(context: Context):
    """`set_float32_matmul_precision` stays: medium, high and highest are one, three and six passes in bfloat16."""
    for node in context.facts.of(ast.Attribute):
        if not context.refers(node, *MATMUL, *OTHERS) or not is_assigned(node) or syntax.is_dead(node):
            continue
        level, statement = LEVELS.get(constant(node.parent.value)), syntax.statement_of(node)
        if context.refers(node, *OTHERS):
            yield context.finding(node, "chooses among NVIDIA's kernels", context.remove(statement))
        elif level is None:
            yield context.finding(node)
        else:
            setting = context.replace_statement(statement, f'torch.set_float32_matmul_precision("{level}")')
            yield context.finding(node, ops=setting)
