"""Ranks and sizes that a program asks a device mesh of torch for: in a sharded program data is divided between hosts, with replicas between chips."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xlaport.analysis.values import constant, last_name
from xlaport.ruleset.api import Context, Finding, Mode, syntax
from xlaport.ruleset.sharding.settings import DEVICE_MESH, MODEL_AXES, value_of

RANKS = frozenset({"get_local_rank", "get_rank"})
MESH_NAME = re.compile(r"(?:^|_)mesh$")
"""A parameter or attribute that holds a mesh, in programs that make one."""

MADE = re.compile(r"\binit_device_mesh\b")
OF_HOSTS = ("xr.process_index()", "xr.process_count()")
OF_CHIPS = ("xr.global_ordinal()", "xr.world_size()")


def members(context: Context) -> Iterator[Finding]:
    """`mesh["dp"].get_local_rank()`, `mesh.size(0)`: of processes; along a dimension that layers are cut over, and along all but the first, there is one."""
    rank, size = OF_CHIPS if context.mode is Mode.MP else OF_HOSTS
    said = "a process has one chip" if context.mode is Mode.MP else "one process drives all chips of a host"
    for call in asked(context):
        divides = divides_data(context, call)
        value = (rank if divides else "0") if last_name(call.func) in RANKS else size if divides else "1"
        yield context.finding(call, said, context.replace(call, value))


def asked(context: Context) -> Iterator[ast.Call]:
    for call in context.calls_of_method(*RANKS, "size"):
        if not context.names.qualified(call.func) and is_mesh(context, call.func.value):
            yield call


def is_of_member(context: Context, use: ast.Name) -> bool:
    """Is the name, or a part of the mesh it stands for, only asked for a rank or a size?"""
    whole = use
    while isinstance(whole.parent, (ast.Subscript, ast.Attribute)):
        whole = whole.parent
    return isinstance(whole.parent, ast.Call) and whole.parent.func is whole and any(whole.parent is call for call in asked(context))


def is_mesh(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return is_mesh(context, node.value)
    if isinstance(node, ast.Call):
        return context.refers(node.func, DEVICE_MESH)
    value = value_of(context, node)
    if value is not node and isinstance(value, (ast.Call, ast.Subscript, ast.Name)) and is_mesh(context, value):
        return True
    return MESH_NAME.search(last_name(node)) is not None and context.project.program_mentions(context.module.source.path, MADE)


def divides_data(context: Context, call: ast.Call) -> bool:
    """Do the rows of a batch go over the dimension that is asked for?"""
    asked_for = syntax.argument(call, "mesh_dim", 0)
    node = call.func.value
    while (value := value_of(context, node)) is not node:
        node = value
    if asked_for is None and isinstance(node, ast.Subscript):
        asked_for, node = node.slice, node.value
    name, names = constant(asked_for) if asked_for is not None else None, names_of(context, node)
    if isinstance(name, int) and name < len(names):
        name = names[name]
    if name in MODEL_AXES:
        return False
    of_data = [other for other in names if other not in MODEL_AXES]
    return name not in of_data[1:]


def names_of(context: Context, mesh: ast.expr) -> list[object]:
    """Of its dimensions; their positions where it gives no names."""
    made = value_of(context, mesh)
    if not isinstance(made, ast.Call):
        return []
    names, shape = syntax.argument(made, "mesh_dim_names", 2), syntax.argument(made, "mesh_shape", 1)
    if isinstance(names, (ast.Tuple, ast.List)):
        return [constant(name) for name in names.elts]
    return list(range(len(shape.elts))) if isinstance(shape, (ast.Tuple, ast.List)) else []
