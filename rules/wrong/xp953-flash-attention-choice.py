"""Transformers' choice of an attention implementation."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

KERNELS = {"flash_attention_2", "flash_attention_3", "flash_attention"}
SWITCHES = {"use_flash_attention_2", "use_flash_attn"}


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and node.value in KERNELS and is_chosen(node) and not syntax.is_dead(node):
            quote = context.text(node)[-1]
            yield context.finding(node, "needs flash-attn, which needs CUDA", context.replace(node, f"{quote}sdpa{quote}"))
    for call in context.facts.of(ast.Call):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        for name in SWITCHES & given.keys():
            if constant(given[name]) is True and last_part(call) in {"from_pretrained", "from_config"}:
                added = {} if "attn_implementation" in given else {"attn_implementation": '"sdpa"'}
                yield context.finding(given[name], "needs flash-attn, which needs CUDA", context.edit_call(call, remove=(name,), **added))


def is_chosen(node: ast.Constant) -> bool:
    """Given as an argument, default, field or entry; not compared, listed or used as a key."""
    child, parent = node, node.parent
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        child, parent = parent, parent.parent
    if isinstance(parent, ast.keyword):
        return "attn" in (parent.arg or "") or parent.arg == "default"
    if isinstance(parent, ast.Dict):
        return child in parent.values and "attn" in str(constant(parent.keys[parent.values.index(child)]))
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return "attn" in ast.unparse(target)
    return isinstance(parent, ast.arguments)


def last_part(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
