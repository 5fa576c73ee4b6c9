"""Imports of torch.distributed.checkpoint."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax

PACKAGE = "torch.distributed.checkpoint"
CONVERTED = frozenset(
    "StateDictOptions get_model_state_dict set_model_state_dict get_optimizer_state_dict set_optimizer_state_dict".split()
)
"""XP721 writes the state dict itself in their place."""


def check(context: Context):
    for node in context.facts.of(ast.Import):
        if any(alias.name == PACKAGE or alias.name.startswith(PACKAGE + ".") for alias in node.names) and not syntax.is_dead(node):
            yield context.finding(node)
    for node in context.facts.of(ast.ImportFrom):
        if node.level or syntax.is_dead(node) or not imports_it(node):
            continue
        if context.mode is not Mode.SPMD or not all(alias.name in CONVERTED for alias in node.names):
            yield context.finding(node)


def imports_it(node: ast.ImportFrom) -> bool:
    module = node.module or ""
    if module == PACKAGE or module.startswith(PACKAGE + "."):
        return True
    return module == "torch.distributed" and any(alias.name == "checkpoint" for alias in node.names)
