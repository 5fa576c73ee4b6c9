"""Handlers of CUDA's out-of-memory error, by class or by text."""

import ast

from xlaport.ruleset.api import Context, syntax

ERRORS = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError", "torch.cuda.memory.OutOfMemoryError")


def check(context: Context):
    for node in context.uses(*ERRORS):
        yield context.finding(node, "XLA raises a plain RuntimeError, when the graph is compiled or run: catch that there, or remove the handler")
    for node in context.facts.of(ast.Constant):
        if is_text_test(node) and not syntax.is_dead(node):
            yield context.finding(node, "XLA's text is another: test the lower-cased text for \"out of memory\" and \"resource_exhausted\"")


def is_text_test(node: ast.Constant) -> bool:
    if not isinstance(node.value, str) or "out of memory" not in node.value.lower():
        return False
    return isinstance(node.parent, ast.Compare) and isinstance(node.parent.ops[0], (ast.In, ast.NotIn)) and node.parent.left is node
