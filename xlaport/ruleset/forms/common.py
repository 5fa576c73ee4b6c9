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


def is_shown(context: Context, event: Event, node: ast.expr, depth: int = 3) -> bool:
    """Does the code show a tensor: is one made, or does a method or function of torch give it? A mere parameter may be a number."""
    if event.value_of(node).certain:
        return True
    if isinstance(node, ast.Name) and depth:
        values = [binding.value for binding in context.names.bindings(node)]
        return bool(values) and all(value is not None and is_shown(context, event, value, depth - 1) for value in values)
    if isinstance(node, ast.Call):
        method = isinstance(node.func, ast.Attribute) and event.value_of(node).is_tensor
        return method or any(name.startswith("torch.") for name in context.names.qualified(node.func))
    if isinstance(node, (ast.BinOp, ast.Compare)):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        return any(event.value_of(part).is_tensor and is_shown(context, event, part, depth) for part in parts)
    if isinstance(node, (ast.UnaryOp, ast.Subscript)):
        return is_shown(context, event, node.operand if isinstance(node, ast.UnaryOp) else node.value, depth)
    return False
