"""Python numbers that are constants of the graph and change: as tensors they are parameters of it."""

from __future__ import annotations

import ast

from xlaport.analysis.flow.events import Event
from xlaport.analysis.flow.value import Sort, Value
from xlaport.findings import Fix
from xlaport.ruleset.api import Context
from xlaport.ruleset.forms.common import code, is_cheap, is_pure, unsafe
from xlaport.ruleset.forms.reads import read_of


def as_parameter(context: Context, event: Event) -> Fix | None:
    """A fix for a number that changes from step to step."""
    node = event.node
    if not event.certain:
        return None  # a position in a host tensor is no constant of the graph
    if context.facts.in_fstring.get(id(node)) is not None:
        return None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_cheap(node.value):
        return by_index(context, event, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return by_power(context, event, node)
    if isinstance(node, ast.Call):
        return by_threshold(context, event, node)
    return None


def by_index(context: Context, event: Event, node: ast.Subscript) -> Fix | None:
    """`x[i]`, `x[:, i]` and windows `x[i : i + n]` as `index_select`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    dim, index = len(parts) - 1, parts[-1]
    if not all(isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None for part in parts[:-1]):
        return None
    if isinstance(index, ast.Slice):
        return by_window(context, event, node, index, dim)
    if not is_position(event.value_of(index)) or not is_pure(context, event, index) or is_read(context, event, index):
        return None
    template = f"{{x}}.index_select({dim}, torch.tensor([{{i}}]).to({{x}}.device)).squeeze({dim})"
    return unsafe(context.replace(node, template, x=node.value, i=index))


def is_read(context: Context, event: Event, index: ast.expr) -> bool:
    """`k = int(x.argmax())`: to be kept on the device where it is read, not to be sent back here."""
    bindings = context.names.bindings(index) if isinstance(index, ast.Name) else []
    return any(isinstance(binding.value, ast.Call) and read_of(context, event, binding.value) is not None for binding in bindings)


def is_position(value: Value) -> bool:
    return value.sort is Sort.NUMBER and value.dtype == "int"


def by_window(context: Context, event: Event, node: ast.Subscript, window: ast.Slice, dim: int) -> Fix | None:
    """The length is written as `i + n`, and stays a shape. A Python `i` would be a constant where it is 0 or 1: two more graphs."""
    lower, upper = window.lower, window.upper
    if window.step is not None or lower is None or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return None
    if code(upper.left) != code(lower) or not is_pure(context, event, lower) or not is_pure(context, event, upper.right):
        return None
    template = f"{{x}}.index_select({dim}, torch.arange({{n}}, device={{x}}.device) + torch.tensor([{{i}}]).to({{x}}.device))"
    return unsafe(context.replace(node, template, x=node.value, n=upper.right, i=lower))


def by_power(context: Context, event: Event, node: ast.BinOp) -> Fix | None:
    """`x ** g` with a `g` that changes."""
    if not event.value_of(node.left).on_device or event.value_of(node.right).sort is not Sort.NUMBER or not is_cheap(node.left):
        return None
    return unsafe(context.replace(node, "torch.pow({x}, torch.tensor({g}, device={x}.device))", x=node.left, g=node.right))


def by_threshold(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`F.threshold(x, v, 0.0)` with a `v` that changes; a comparison takes it as a parameter."""
    if not context.refers(call.func, "torch.nn.functional.threshold", "torch.threshold") or len(call.args) != 3 or call.keywords:
        return None
    if not is_pure(context, event, call.args[0]):
        return None
    return unsafe(context.replace(call, "torch.where({x} > {v}, {x}, {w})", x=call.args[0], v=call.args[1], w=call.args[2]))
