"""`torch.cuda.get_device_name` and `get_device_properties`: printed mostly, sometimes decided upon."""

import ast

from xlaport.ruleset.api import Context, syntax

STRING_TESTS = {"startswith", "endswith", "find", "index", "count", "lower", "upper", "split"}


def check(context: Context):
    for node in context.uses("torch.cuda.get_device_name"):
        if not isinstance(node, ast.Call):
            yield context.finding(node, "handed on as a function that raises without a GPU: pass {device_kind}")
        elif is_decided_upon(context, node):
            yield context.finding(node, "chooses by the name of an NVIDIA device: decide what a TPU is to do here")
        else:
            yield context.finding(node, "raises without a GPU", context.replace(node, "{device_name}"))
    for node in context.uses("torch.cuda.get_device_properties"):
        member = node.parent if isinstance(node, ast.Call) and isinstance(node.parent, ast.Attribute) else None
        if member is not None and member.attr == "name" and not is_decided_upon(context, member):
            yield context.finding(node, "raises without a GPU", context.replace(member, "{device_name}"))
        elif member is not None and member.attr == "total_memory":
            yield context.finding(node, "raises without a GPU", context.replace(member, "{memory_limit}"))
        else:
            yield context.finding(node, "raises without a GPU: take what is needed from {device_reading}")


def is_decided_upon(context: Context, node: ast.expr) -> bool:
    """Compared, tested or cut up, here or through the variable it is put in."""
    if is_tested(node):
        return True
    statement = node.parent
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    target = statement.targets[0]
    return any(
        is_tested(use) for use in context.facts.of(ast.Name)
        if use.id == target.id and isinstance(use.ctx, ast.Load) and syntax.enclosing_scope(use) is syntax.enclosing_scope(target)
    )


def is_tested(node: ast.expr) -> bool:
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, ast.Compare):
            return True
        if isinstance(parent, ast.Attribute):
            return parent.attr in STRING_TESTS
        if isinstance(parent, ast.Subscript):
            return child is parent.slice
        if not isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            return False
        child = parent
    return False
