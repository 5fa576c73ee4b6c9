"""float16 where a type is chosen: required to change where it reaches autocast, else unsafe."""

import ast
from collections.abc import Iterator

from xlaport.analysis import devices
from xlaport.analysis.values import constant, default_of, is_device_string
from xlaport.ruleset.api import Context, Danger, Grade, Severity, syntax

HALF = ("torch.float16", "torch.half")
NARROW = ("torch.cuda.amp.autocast", "torch_xla.amp.autocast")
AUTOCAST = ("torch.autocast", "torch.amp.autocast")
PLACES = {**dict.fromkeys(AUTOCAST, 1), NARROW[0]: 1, NARROW[1]: 2}
"""Where autocast takes its dtype."""

READERS = frozenset({"finfo", "iinfo", "view", "isinstance", "element_size", "is_dtype_supported"})


def check(context: Context):
    if not context.names_any(*HALF) or not context.on_device:
        return
    in_autocast = {id(node): node for node in reaching_autocast(context)}
    for node in dict.fromkeys(node for name in HALF for node in context.names.references.get(name, ())):
        if not (is_half(context, node) and not syntax.is_dead(node)):
            continue
        table = holder_of(node)
        if id(node) in in_autocast:
            yield from for_autocast(context, node, table)
        elif table is None and is_choice_of_type(context, node) and not offers_bfloat16(context, node):
            yield elsewhere(context, node)


def is_half(context: Context, node: ast.expr) -> bool:
    if not isinstance(node, (ast.Attribute, ast.Name)) or isinstance(node.parent, ast.Attribute) or not isinstance(node.ctx, ast.Load) or not context.refers(node, *HALF):
        return False
    return not (isinstance(node, ast.Name) and any(b.target is None for b in context.names.bindings(node)))


def for_autocast(context: Context, node: ast.expr, table: ast.AST | None):
    if table is not None:
        message = "an option may choose float16 here: run with bfloat16, whose range needs no scaler"
        yield context.finding(node, message, severity=Severity.NOTE, danger=Danger.SILENT, is_idiom=False)
        return
    message = "float16 autocast needs gradient scaling, which is off on {runtime}"
    ops = context.replace(whole_choice(context, node), "torch.bfloat16")
    yield context.finding(node, message, ops, grade=Grade.REQUIRED, danger=Danger.SILENT)


def whole_choice(context: Context, node: ast.expr) -> ast.expr:
    """All of `torch.bfloat16 if ... else torch.float16`: both sides are one type then."""
    choice = node.parent
    if not isinstance(choice, ast.IfExp) or node is choice.test:
        return node
    other = choice.orelse if node is choice.body else choice.body
    return choice if context.refers(other, "torch.bfloat16") else node


def elsewhere(context: Context, node: ast.expr):
    trains = bool(context.training.steps)
    danger = Danger.SILENT if trains else Danger.SLOW
    message = "float16 without gradient scaling: bfloat16 is the 16-bit type of a TPU"
    return context.finding(node, message, context.replace(node, "torch.bfloat16"), danger=danger)


# -- what reaches autocast


def reaching_autocast(context: Context) -> Iterator[ast.expr]:
    for call in dict.fromkeys([*context.calls(*PLACES), *context.calls("functools.partial")]):
        func, positional = call.func, call.args
        if context.refers(func, "functools.partial") and positional:
            func, positional = positional[0], positional[1:]
        name = next((name for name in context.names.qualified(func) if name in PLACES), None)
        if name is None:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        dtype = positional[PLACES[name]] if len(positional) > PLACES[name] else given.get("dtype")
        device = positional[0] if positional else given.get("device_type")
        if dtype is None or name in AUTOCAST and constant(device) == "cpu":
            continue
        is_written_out = context.refers(dtype, *HALF) and not context.is_second_name(dtype)
        if is_written_out and (name in NARROW or device is not None and devices.spelled(device, context.module, "")):
            continue  # XP602 changes it with the device
        yield from sources(context, dtype, 0)


def sources(context: Context, node: ast.expr | None, depth: int) -> Iterator[ast.expr]:
    """float16 written out where the value of an expression comes from."""
    if node is None or depth > 4:
        return
    if isinstance(node, (ast.Attribute, ast.Name)) and is_half(context, node):
        yield node
    elif isinstance(node, ast.IfExp):
        yield from sources(context, node.body, depth)
        yield from sources(context, node.orelse, depth)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from sources(context, value, depth)
    elif isinstance(node, ast.Subscript):
        yield from sources(context, node.value, depth + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        yield from sources(context, node.func.value, depth + 1)
    elif isinstance(node, ast.Name):
        for binding in context.names.bindings(node):
            yield from sources(context, given_by(binding), depth + 1)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        owner = syntax.enclosing(node, ast.ClassDef)
        for value in context.values.assigned_attributes(owner).get(node.attr, ()) if owner else ():
            yield from sources(context, value, depth + 1)


def given_by(binding) -> ast.expr | None:
    if binding.how == "parameter":
        return default_of(binding.node.parent.parent, binding.node)
    return binding.value if binding.how == "assign" else None


# -- where it stands


def holder_of(node: ast.expr) -> ast.AST | None:
    """The table, list or tuple it is an element of."""
    return node.parent if isinstance(node.parent, (ast.Dict, ast.List, ast.Tuple, ast.Set)) else None


def is_choice_of_type(context: Context, node: ast.expr) -> bool:
    """Given as an argument, a default or the value of a variable: not compared, not asked about."""
    child, parent = node, node.parent
    while isinstance(parent, ast.IfExp) and child is not parent.test:
        child, parent = parent, parent.parent
    if isinstance(parent, ast.keyword):
        child, parent = parent, parent.parent
    if isinstance(parent, ast.Call):
        func = parent.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        return child is not func and name not in READERS and not context.refers(func, *AUTOCAST, *NARROW)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Return)):
        return parent.value is child
    return isinstance(parent, ast.arguments)


def offers_bfloat16(context: Context, node: ast.expr) -> bool:
    """In a branch of a choice by name (`== "fp16"`), or beside bfloat16 in the same choice."""
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, syntax.SCOPES):
            return False
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            text = context.text(parent)
            if compares_with_name(parent.test) or "bfloat16" in text:
                return True
        child = parent
    return False


def compares_with_name(test: ast.expr) -> bool:
    """`precision == "fp16"`; the name of a device offers no type."""
    sides = (side for part in ast.walk(test) if isinstance(part, ast.Compare) for side in (part.left, *part.comparators))
    return any(isinstance(value, str) and not is_device_string(value) for value in map(constant, sides))
