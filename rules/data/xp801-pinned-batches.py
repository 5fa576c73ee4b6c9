"""`pin_memory` on its way to a data loader."""

import ast

from xlaport.analysis.values import constant, default_of, last_name
from xlaport.ruleset.api import Context, Kind, syntax

OPTIONS = ("pin_memory", "pin_memory_device")
TENSORS = ("torch.", "numpy.")


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        given = [keyword for keyword in call.keywords if keyword.arg in OPTIONS]
        if given and not syntax.is_dead(call):
            yield from in_call(context, call, given)
    for display in context.facts.of(ast.Dict):
        yield from in_display(context, display)
    for statement in context.facts.of(ast.Assign):
        if is_item(statement) and asks(context, statement.value) and not syntax.is_dead(statement):
            yield context.finding(statement, ops=context.remove(statement))
    for parameter in context.facts.of(ast.arg):
        default = default_of(parameter.parent.parent, parameter) if parameter.arg == "pin_memory" else None
        if constant(default) is True:
            yield context.finding(default, ops=context.replace(default, "False"))


def in_call(context: Context, call: ast.Call, given: list[ast.keyword]):
    if is_loader(context, call):
        if any(asks(context, keyword.value) for keyword in given):
            yield context.finding(given[0].value, ops=context.edit_call(call, remove=OPTIONS))
        return
    if makes_tensor(context, call):
        return  # XP802
    for keyword in given:
        if constant(keyword.value) is True:
            is_dict = isinstance(call.func, ast.Name) and call.func.id == "dict"
            ops = context.edit_call(call, remove=[keyword.arg]) if is_dict else context.replace(keyword.value, "False")
            yield context.finding(keyword.value, ops=ops)


def is_loader(context: Context, call: ast.Call) -> bool:
    """A class of loaders, not a function that makes one."""
    cls = context.values.class_of_name(call.func)
    if cls and Kind.LOADER in context.values.kind_of_class(*cls):
        return True
    name = last_name(call.func)
    return name.endswith("DataLoader") and name[0].isupper() or context.refers(call.func, "torch.utils.data.DataLoader")


def makes_tensor(context: Context, call: ast.Call) -> bool:
    is_torch = any(name.startswith(TENSORS) for name in context.names.qualified(call.func))
    return is_torch or isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_")


def asks(context: Context, value: ast.expr) -> bool:
    """Not switched off, and not handed through from a parameter, whose callers decide."""
    if isinstance(value, ast.Constant):
        return value.value not in (False, None, "")
    if isinstance(value, ast.Name) and "pin" in value.id:
        return not any(binding.how == "parameter" for binding in context.names.bindings(value))
    return True


def in_display(context: Context, display: ast.Dict):
    for key, value in zip(display.keys, display.values):
        if constant(key) == "pin_memory" and asks(context, value) and not syntax.is_dead(display):
            yield context.finding(value, ops=context.replace(value, "False"))


def is_item(statement: ast.Assign) -> bool:
    target = statement.targets[0]
    return len(statement.targets) == 1 and isinstance(target, ast.Subscript) and constant(target.slice) == "pin_memory"
