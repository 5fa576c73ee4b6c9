"""Collectives on Python objects: the xla backend has none."""

import ast

from xlaport.analysis import collectives
from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    if context.mode is Mode.SPMD:
        return  # its group is gloo
    for call in context.calls(*collectives.OBJECTS):
        group = syntax.argument(call, "group")
        if syntax.is_dead(call) or collectives.is_gloo(group, context.module):
            continue
        ops = carried(context, call) if group is None and context.mode is not Mode.KEEP else None
        yield context.finding(call, "object collectives raise on the xla backend" + ("" if ops else ": pass group=, a gloo group made by all replicas"), ops)


def carried(context: Context, call: ast.Call):
    """`xm.mesh_reduce` in place of a statement that gathers or broadcasts."""
    if not isinstance(call.parent, ast.Expr):
        return None
    if context.refers(call.func, collectives.DIST + "all_gather_object"):
        target, value = syntax.argument(call, "object_list", 0), syntax.argument(call, "obj", 1)
        template = '{target}[:] = xm.mesh_reduce("all_gather_object", {value}, list)'
    elif context.refers(call.func, collectives.DIST + "broadcast_object_list"):
        target = value = syntax.argument(call, "object_list", 0)
        source = syntax.argument(call, "src", 1)
        if source is not None and (not isinstance(source, ast.Constant) or not isinstance(source.value, int)):
            return None
        template = '{target}[:] = xm.mesh_reduce("broadcast_object_list", {value}, lambda lists: lists[%d])' % (source.value if source else 0)
    else:
        return None
    if not isinstance(target, ast.Name) or value is None:
        return None
    return context.replace_statement(call.parent, template, target=target, value=value)
