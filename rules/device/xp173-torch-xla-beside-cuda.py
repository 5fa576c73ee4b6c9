"""What is written for torch_xla where only CUDA's code is ported."""

import ast
import re

from xlaport.ruleset.api import Context, is_below, syntax

MODULE = "torch_xla"
NAMED = re.compile(r"\btorch_xla\b")
ADVICE = "--from torch_xla converts it, beside the CUDA code, where it has a form here"


def check(context: Context):
    for node in context.facts.of(ast.Import, ast.ImportFrom):
        names = [name for name in syntax.imported(node) if is_below(name, MODULE)]
        if names and not syntax.is_dead(node):
            yield context.finding(node, f"`{names[0]}` is not there: {ADVICE}", is_idiom=False)
    for name, node in context.named_below(MODULE):
        yield context.finding(node, f"`{name}` is torch_xla's: {ADVICE}", is_idiom=False)
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and NAMED.search(node.value) and not syntax.is_docstring(node) and not syntax.is_dead(node):
            yield context.finding(node, f"the string names torch_xla, which is not there: {ADVICE}", is_idiom=False)
