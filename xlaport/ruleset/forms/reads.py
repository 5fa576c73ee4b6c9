"""Values that a step reads from the device, and that could stay there."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xlaport.analysis import facts as syntax
from xlaport.analysis.flow.events import Event
from xlaport.analysis.flow.value import Sort
from xlaport.analysis.training import contains
from xlaport.findings import Fix
from xlaport.rewrite.ops import Op
from xlaport.ruleset.api import Context
from xlaport.ruleset.forms import branches
from xlaport.ruleset.forms.common import code, is_cheap, is_pure, is_shown, unsafe

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
INVERSES = ("torch.inverse", "torch.linalg.inv")


def kept_on_device(context: Context, event: Event) -> Fix | None:
    """A fix for a read of a device tensor; each form looks whether it is the one."""
    node = event.node
    if context.facts.in_fstring.get(id(node)) is not None:
        return None
    if isinstance(node, ast.Subscript):
        return by_tensor_position(context, event, node)
    if not isinstance(node, ast.Call):
        return None
    return (
        unchecked_inverse(context, node)
        or unchecked_distribution(context, node)
        or builtin_of_torch(context, event, node)
        or accumulated(context, event, node)
        or operand(context, event, node)
        or branches.chosen_on_device(context, event)
    )


# -- checks that read


def unchecked_inverse(context: Context, call: ast.Call) -> Fix | None:
    """`torch.inverse(x)` reads an error code; `inv_ex` leaves it on the device."""
    if context.refers(call.func, *INVERSES) and len(call.args) == 1 and not call.keywords:
        return unsafe(context.replace(call, "torch.linalg.inv_ex({x}).inverse", x=call.args[0]))
    if isinstance(call.func, ast.Attribute) and call.func.attr == "inverse" and not call.args and not call.keywords:
        return unsafe(context.replace(call, "torch.linalg.inv_ex({x}).inverse", x=call.func.value))
    return None


def unchecked_distribution(context: Context, call: ast.Call) -> Fix | None:
    if any(name.startswith("torch.distributions.") for name in context.names.qualified(call.func)):
        return unsafe(context.edit_call(call, validate_args="False"))
    return None


# -- builtins


def builtin_of_torch(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`min(v)`, `max(a, b)`, `max(n, 1)`, `any(v)`, `all(v)` of tensors."""
    if not isinstance(call.func, ast.Name) or call.func.id not in {"min", "max", "any", "all"} or call.keywords:
        return None
    name, values = call.func.id, [event.value_of(argument) for argument in call.args]
    if not all(is_shown(context, event, argument) for argument, value in zip(call.args, values) if value.is_tensor):
        return None
    if len(values) == 1 and values[0].is_tensor and values[0].rank == 1:
        return unsafe(context.replace(call, f"{{x}}.{name}()", x=call.args[0]))
    if name not in {"min", "max"} or len(values) != 2 or not all(value.rank in {0, None} for value in values):
        return None
    if all(value.is_tensor for value in values):
        return unsafe(context.replace(call, f"torch.{name}imum({{a}}, {{b}})", a=call.args[0], b=call.args[1]))
    for own, other, value in zip(call.args, reversed(call.args), values):
        if value.is_tensor and event.value_of(other).sort is Sort.NUMBER:
            return unsafe(context.replace(call, f"{{x}}.clamp({'min' if name == 'max' else 'max'}={{n}})", x=own, n=other))
    return None


# -- reads of numbers


@dataclass(frozen=True)
class Read:
    """A Python number made of the tensor `source`; `whole` numbers have no gradient to leave behind."""

    source: ast.expr
    whole: bool

    @property
    def template(self) -> str:
        return "{x}" if self.whole else "{x}.detach()"


def read_of(context: Context, event: Event, call: ast.Call) -> Read | None:
    """`x.item()`, `float(x)`, `int(x)`, also with `.cpu()` or `.detach()` on the way."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "item" and not call.args:
        source = call.func.value
    elif isinstance(call.func, ast.Name) and call.func.id in {"float", "int"} and len(call.args) == 1:
        source = call.args[0]
    else:
        return None
    while isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr in {"cpu", "detach", "item"} and not source.args:
        source = source.func.value
    value = event.value_of(source)
    is_builtin = isinstance(call.func, ast.Name)
    if not value.is_tensor or value.rank not in (0, None) or is_builtin and not is_shown(context, event, source):
        return None
    whole = value.dtype in {"int", "bool"}
    is_cut_off = is_builtin and call.func.id == ("float" if whole else "int")
    return None if is_cut_off else Read(source, whole)


def operand(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`x / y.max().item()`, also through a name: the other side is a tensor, so a tensor does as well."""
    read = read_of(context, event, call)
    if read is None:
        return None
    places = named_places(context, call) if isinstance(call.parent, ast.Assign) else [call]
    if not places or not all(takes_tensor(event, place, read) for place in places):
        return None
    return unsafe(context.replace(call, read.template, x=read.source))


def named_places(context: Context, call: ast.Call) -> list[ast.Name]:
    """Where a name is used that only this assignment gives; none when it is another's too, or an inner function's."""
    target = call.parent.targets[0]
    if len(call.parent.targets) != 1 or not isinstance(target, ast.Name) or len(context.names.bindings(target)) != 1:
        return []
    scope = syntax.enclosing_scope(call)
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)]
    return uses if isinstance(scope, syntax.FUNCTIONS) and all(syntax.enclosing_scope(node) is scope for node in uses) else []


def takes_tensor(event: Event, place: ast.expr, read: Read) -> bool:
    """Arithmetic with a device tensor, or a position in one, which `index_select` takes."""
    parent = place.parent
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ARITHMETIC):
        return event.value_of(parent.right if parent.left is place else parent.left).on_device
    if isinstance(parent, ast.Subscript) and parent.slice is place and isinstance(parent.ctx, ast.Load):
        return read.whole and event.value_of(parent.value).on_device
    return False


def accumulated(context: Context, event: Event, call: ast.Call) -> Fix | None:
    """`total += loss.item()`: the sum stays on the device, and is read after the loop."""
    read, statement = read_of(context, event, call), syntax.statement_of(call)
    if read is None or not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, (ast.Add, ast.Sub)):
        return None
    if not is_term(call, statement) or event.value_of(statement.target).sort is Sort.SEQUENCE:
        return None
    ops = context.replace(call, read.template, x=read.source)
    if isinstance(statement.target, ast.Attribute) and is_cheap(statement.target):
        return unsafe(rebinding(context, statement, call, read))
    builtin = builtin_of(event, statement, call, read)
    rest = read_after_loop(context, statement, builtin) if builtin and isinstance(statement.target, ast.Name) else None
    return unsafe([*ops, *rest]) if rest is not None else None


def is_term(call: ast.Call, statement: ast.AugAssign) -> bool:
    """Is the value a sum or product of the read with numbers?"""
    for parent in syntax.ancestors(call):
        if parent is statement:
            return True
        if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ARITHMETIC):
            return False
    return False


def builtin_of(event: Event, statement: ast.AugAssign, call: ast.Call, read: Read) -> str:
    """What Python's sum was: `int` of whole numbers only; empty when that is not known."""
    operations = [parent for parent in syntax.ancestors(call) if isinstance(parent, ast.BinOp)]
    if not read.whole or any(isinstance(operation.op, ast.Div) for operation in operations):
        return "float"
    others = [part for operation in operations for part in (operation.left, operation.right) if not contains(part, call)]
    dtypes = {event.value_of(part).dtype for part in (statement.target, *others)}
    return "float" if "float" in dtypes else "int" if dtypes <= {"int", "bool"} else ""


def rebinding(context: Context, statement: ast.AugAssign, call: ast.Call, read: Read) -> list[Op]:
    """A new tensor each time: who was handed the old sum keeps it."""
    target, sign = code(statement.target), "+" if isinstance(statement.op, ast.Add) else "-"
    if statement.value is call:
        return context.replace_statement(statement, f"{target} = {target} {sign} {read.template}", x=read.source)
    inner = context.replace(call, read.template, x=read.source)
    return [*inner, *context.replace_statement(statement, f"{target} = {target} {sign} {{v}}", v=statement.value)]


def read_after_loop(context: Context, statement: ast.AugAssign, builtin: str) -> list[Op] | None:
    """`total = float(total)` after the loop; reads in the loop, which only some rounds may do, are spelled out."""
    loop = next(syntax.enclosing_loops(statement), None)
    if loop is None or loop.orelse:
        return None
    name = statement.target.id
    inside = [
        node for node in ast.walk(loop)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and syntax.statement_of(node) is not statement
    ]
    if any(not is_in_some_rounds(node, loop) or context.facts.in_fstring.get(id(node)) is not None for node in inside):
        return None
    ops = [op for node in inside for op in context.replace(node, f"{builtin}({name})")]
    return [*ops, *context.insert(loop, "after", f"{name} = {builtin}({name})")]


def is_in_some_rounds(node: ast.AST, loop: ast.AST) -> bool:
    """Below an `if` of the loop's body, and not in its test."""
    child = node
    for parent in syntax.ancestors(node):
        if parent is loop:
            return False
        if isinstance(parent, ast.If) and child is not parent.test:
            return True
        child = parent
    return False


# -- positions


def by_tensor_position(context: Context, event: Event, node: ast.Subscript) -> Fix | None:
    """`x[t]` with a tensor of no dimensions becomes a Python number; `index_select` takes it as it is."""
    position = event.value_of(node.slice)
    base = event.value_of(node.value)
    if not isinstance(node.ctx, ast.Load) or not base.on_device or not position.is_tensor or position.rank != 0 or position.dtype != "int":
        return None
    if not is_pure(context, event, node.slice):
        return None
    return unsafe(context.replace(node, "{x}.index_select(0, {t}.view(1)).squeeze(0)", x=node.value, t=node.slice))
