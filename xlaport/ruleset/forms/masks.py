"""Boolean masks as indexes: assignments, sums and counts of what they select, over the whole tensor."""

from __future__ import annotations

import ast

from xlaport.analysis import facts as syntax
from xlaport.analysis.flow.events import Event
from xlaport.analysis.flow.value import Place, Sort
from xlaport.findings import Fix
from xlaport.rewrite.ops import Op
from xlaport.ruleset.api import Context
from xlaport.ruleset.forms.branches import SYMBOLS
from xlaport.ruleset.forms.common import code, is_cheap, is_pure, safe, unsafe

COUNTED = ("torch.nonzero", "torch.argwhere")
REDUCED = {
    "sum": "torch.where({m}, {x}, 0).sum()",
    "mean": "torch.where({m}, {x}, 0).sum() / {m}.sum()",
    "max": '{x}.masked_fill(~{m}, float("-inf")).max()',
    "min": '{x}.masked_fill(~{m}, float("inf")).min()',
}


def without_selection(context: Context, event: Event) -> Fix | None:
    """A fix for an op on the host that selects by a mask."""
    node = event.node
    if isinstance(node, ast.Subscript):
        return bools_as_positions(context, node) or by_mask(context, event, node)
    if isinstance(node, ast.Call):
        return counted(context, event, node) or selected(context, event, node)
    return None


# -- a list of bools


def bools_as_positions(context: Context, node: ast.Subscript) -> Fix | None:
    """`x[[True, False, True]]` is `x[[0, 2]]`: the list says already which."""
    index = node.slice
    if not isinstance(index, ast.List) or not index.elts or not isinstance(node.ctx, ast.Load):
        return None
    if not all(isinstance(item, ast.Constant) and isinstance(item.value, bool) for item in index.elts):
        return None
    positions = [place for place, item in enumerate(index.elts) if item.value]
    return safe(context.replace(index, repr(positions))) if positions else None


# -- x[mask]


def by_mask(context: Context, event: Event, node: ast.Subscript) -> Fix | None:
    mask = mask_like(context, event, node.value, node.slice)
    if mask is None or not is_pure(context, event, node.slice):
        return None
    parent = node.parent
    if isinstance(parent, ast.Assign) and parent.targets == [node]:
        return stored(context, event, node, mask, parent)
    if isinstance(parent, ast.AugAssign) and parent.target is node and type(parent.op) in SYMBOLS:
        return updated(context, event, node, mask, parent)
    if isinstance(node.ctx, ast.Load):
        return reduced(context, event, node, node.value, node.slice)
    return None


def mask_like(context: Context, event: Event, base: ast.expr, mask: ast.expr) -> str | None:
    """A template of the mask `{m}` in the shape of what it selects from; None where the shapes are not known."""
    if isinstance(mask, (ast.Tuple, ast.Slice)):
        return None
    if is_of_shape(event, mask, base):
        return "{m}"
    selected, selecting = event.value_of(base).rank, event.value_of(mask).rank
    if selected is None or selecting is None or not 0 < selecting <= selected:
        return None
    extra = selected - selecting
    return "{m}" if not extra else "{m}[" + ", ".join([":"] * selecting + ["None"] * extra) + "]"


def is_of_shape(event: Event, mask: ast.expr, base: ast.expr) -> bool:
    """A comparison of the tensor itself with a number, or its negation."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return is_of_shape(event, mask.operand, base)
    if isinstance(mask, ast.Call) and len(mask.args) == 1 and code(mask.func) in {"torch.isnan", "torch.isinf", "torch.isfinite"}:
        return code(mask.args[0]) == code(base)
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1:
        return False
    sides = [mask.left, mask.comparators[0]]
    others = [side for side in sides if code(side) != code(base)]
    return len(others) == 1 and (event.value_of(others[0]).sort is Sort.NUMBER or event.value_of(others[0]).rank == 0)


def stored(context: Context, event: Event, node: ast.Subscript, mask: str, statement: ast.Assign) -> Fix | None:
    """`x[m] = v`. A number goes in place, so that other names of the tensor see it too."""
    value = statement.value
    if is_number(event, value):
        ops = context.replace_statement(statement, f"{{x}}.masked_fill_({mask}, {{v}})", x=node.value, m=node.slice, v=value)
        return safe(ops) if is_exact(event, node.value, value) else unsafe(ops)
    source = source_of(event, node, value, mask)
    if source is None or not is_cheap(node.value) or not is_pure(context, event, source):
        return None
    return unsafe(rebound(context, statement, node, f"torch.where({mask}, {{v}}, {{x}})", source))


def is_number(event: Event, node: ast.expr) -> bool:
    value = event.value_of(node)
    return value.sort is Sort.NUMBER or value.is_tensor and value.rank == 0


def is_exact(event: Event, base: ast.expr, value: ast.expr) -> bool:
    """Whole numbers fit every dtype; others are cut off in a tensor of whole numbers, which `masked_fill_` refuses."""
    held = event.value_of(value)
    return held.sort is Sort.NUMBER and (held.dtype in {"int", "bool"} or event.value_of(base).dtype == "float" or held.constant == (0.0,))


def source_of(event: Event, node: ast.Subscript, value: ast.expr, mask: str) -> ast.expr | None:
    """`y` of `y[m]`, for the same mask; or a value that goes into every selected row."""
    if isinstance(value, ast.Subscript) and code(value.slice) == code(node.slice):
        return value.value if same_rank(event, value.value, node.value) else None
    rank, extra = event.value_of(value).rank, mask.count("None")
    return value if rank is not None and rank <= extra and event.value_of(value).is_tensor else None


def same_rank(event: Event, first: ast.expr, second: ast.expr) -> bool:
    ranks = {event.value_of(first).rank, event.value_of(second).rank}
    return len(ranks) == 1 or None in ranks


def updated(context: Context, event: Event, node: ast.Subscript, mask: str, statement: ast.AugAssign) -> Fix | None:
    """`x[m] += v`."""
    value = statement.value
    source = value if is_number(event, value) else source_of(event, node, value, mask)
    if source is None or not is_cheap(node.value) or not is_pure(context, event, source):
        return None
    template = f"torch.where({mask}, {{x}} {SYMBOLS[type(statement.op)]} {{v}}, {{x}})"
    return unsafe(rebound(context, statement, node, template, source))


def rebound(context: Context, statement: ast.stmt, node: ast.Subscript, template: str, value: ast.expr) -> list[Op]:
    """A new tensor under the old name."""
    return context.replace_statement(statement, f"{code(node.value)} = {template}", x=node.value, m=node.slice, v=value)


# -- what is made of a selection


def selected(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`torch.masked_select(x, m)`, `x.masked_select(m)`."""
    if context.refers(call.func, "torch.masked_select") and len(call.args) == 2:
        base, mask = call.args
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "masked_select" and len(call.args) == 1:
        base, mask = call.func.value, call.args[0]
    else:
        return None
    if not is_pure(context, event, mask):
        return None
    return reduced(context, event, call, base, mask)


def reduced(context: Context, event: Event, node: ast.expr, base: ast.expr, mask: ast.expr) -> Fix | None:
    count = size_of(node)
    if count is not None:
        whole, every = count
        if every and mask_like(context, event, base, mask) != "{m}":
            return None
        return unsafe(context.replace(whole, counting(event, mask), m=mask))
    found = reduction_of(context, node)
    if found is None or mask_like(context, event, base, mask) != "{m}" or not is_pure(context, event, base):
        return None
    whole, name = found
    if name in {"max", "min"} and event.value_of(base).dtype != "float":
        return None
    template = REDUCED[name]
    if event.value_of(mask).place is Place.HOST:
        template = template.replace("{m}", "{m}.to({x}.device)")
    return unsafe(context.replace(whole, template, x=base, m=mask))


def size_of(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """The expression that asks how many there are, and whether it counts elements rather than rows."""
    parent = node.parent
    if isinstance(parent, ast.Call) and parent.args == [node] and isinstance(parent.func, ast.Name) and parent.func.id == "len":
        return parent, False
    if not isinstance(parent, ast.Attribute):
        return None
    outer = parent.parent
    if parent.attr == "shape" and isinstance(outer, ast.Subscript) and isinstance(outer.slice, ast.Constant) and outer.slice.value == 0:
        return outer, False
    if isinstance(outer, ast.Call) and outer.func is parent and parent.attr == "size" and [code(part) for part in outer.args] == ["0"]:
        return outer, False
    if isinstance(outer, ast.Call) and outer.func is parent and parent.attr in {"numel", "nelement"}:
        return outer, True
    return None


def counting(event: Event, mask: ast.expr) -> str:
    return "{m}.sum()" if event.value_of(mask).dtype == "bool" else "({m} != 0).sum()"


def reduction_of(context: Context, node: ast.expr) -> tuple[ast.Call, str] | None:
    """`selection.sum()` or `torch.sum(selection)`, over everything."""
    parent = node.parent
    if isinstance(parent, ast.Attribute) and syntax.is_called(parent) and not parent.parent.args and not parent.parent.keywords:
        return (parent.parent, parent.attr) if parent.attr in REDUCED else None
    if isinstance(parent, ast.Call) and parent.args == [node] and not parent.keywords:
        name = next((name for name in REDUCED if context.refers(parent.func, f"torch.{name}")), "")
        return (parent, name) if name else None
    return None


# -- counting with nonzero


def counted(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`torch.nonzero(m).shape[0]`, `len(m.nonzero())`."""
    if context.refers(call.func, *COUNTED) and len(call.args) == 1 and not call.keywords:
        mask = call.args[0]
    elif isinstance(call.func, ast.Attribute) and call.func.attr in {"nonzero", "argwhere"} and not call.args and not call.keywords:
        mask = call.func.value
    else:
        return None
    count = size_of(call)
    if count is None or count[1]:
        return None  # `numel` counts each dimension of a position
    return unsafe(context.replace(count[0], counting(event, mask), m=mask))
