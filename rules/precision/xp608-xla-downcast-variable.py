"""Environment variables of torch_xla that change types everywhere."""

import ast

from xlaport.ruleset.api import Context, syntax

NAMES = {
    "XLA_USE_BF16": "turns every float32 tensor into bfloat16, optimizer state included",
    "XLA_DOWNCAST_BF16": "turns every float32 tensor into bfloat16, optimizer state included",
    "XLA_USE_32BIT_LONG": "cuts every int64 to 32 bits",
    "XLA_USE_FP16": "has no effect any more",
    "XLA_DOWNCAST_FP16": "has no effect any more",
}


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and node.value in NAMES and is_set(node) and not syntax.is_dead(node):
            yield context.finding(node, f"{node.value} {NAMES[node.value]}: ask for the type where you want it")


def is_set(node: ast.Constant) -> bool:
    parent = node.parent
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Store)
    if isinstance(parent, ast.Dict):
        return node in parent.keys
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.attr in {"setdefault", "putenv", "setenv"}
    return False
