"""What all forms ask: is an expression free of effects, may it be written twice, do two shapes agree."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from xlaport.analysis.flow.events import Event
from xlaport.analysis.flow.value import Sort
from xlaport.findings import Fix, Grade
from xlaport.rewrite.ops import Op
from xlaport.ruleset.api import Context

PLAIN_NODES = (
    ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.List,
    ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)
RANDOM = frozenset("rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson dropout alpha_dropout rrelu gumbel_softmax".split())
READS = frozenset({"item", "tolist", "numpy", "cpu", "backward", "register_hook", "share_memory"})


def unsafe(ops: Iterable[Op]) -> Fix:
    return Fix(Grade.UNSAFE, tuple(ops))


def safe(ops: Iterable[Op]) -> Fix:
    return Fix(Grade.SAFE, tuple(ops))


def is_pure(context: Context, event: Event, node: ast.AST) -> bool:
    """Only arithmetic, and functions of torch that have no effect and draw no numbers: may run once more, or needlessly."""
    if isinstance(node, ast.Call):
        return is_pure_function(context, event, node) and all(is_pure(context, event, part) for part in (*node.args, *node.keywords))
    return isinstance(node, PLAIN_NODES) and all(is_pure(context, event, part) for part in ast.iter_child_nodes(node))


def is_pure_function(context: Context, event: Event, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.endswith("_") or name in RANDOM or name in READS:
        return False
    if any(qualified.startswith("torch.") for qualified in context.names.qualified(call.func)):
        return name[:1].islower()
    if not isinstance(call.func, ast.Attribute) or not is_pure(context, event, call.func.value):
        return False
    return event.value_of(call.func.value).is_tensor


def is_cheap(node: ast.AST) -> bool:
    """A name or attribute, which reads well when it is written twice."""
    while isinstance(node, ast.Attribute) or isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Constant)):
        node = node.value
    return isinstance(node, ast.Name)


def code(node: ast.AST) -> str:
    return ast.unparse(node)


def names_in(node: ast.AST) -> set[str]:
    """Names and attributes as they are written: `x`, `self.best`."""
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))}


def is_number_or_tensor(event: Event, node: ast.AST) -> bool:
    """May it stand as an argument of `torch.where`? What nothing is known of may."""
    return event.value_of(node).sort in {Sort.TENSOR, Sort.NUMBER, Sort.UNKNOWN}


def none_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))
