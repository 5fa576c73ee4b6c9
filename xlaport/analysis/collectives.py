"""Calls that several processes make together: which they are, and over which group."""

from __future__ import annotations

import ast

from xlaport.analysis.facts import FUNCTIONS, ancestors, argument, enclosing_function, is_dead
from xlaport.analysis.project import Module
from xlaport.analysis.values import constant, reaching

DIST, XM = "torch.distributed.", "torch_xla.core.xla_model."

TENSORS = {
    **dict.fromkeys((DIST + name for name in ("all_reduce", "broadcast", "reduce", "scatter", "gather")), 0),
    **dict.fromkeys((DIST + name for name in ("all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "reduce_scatter", "all_to_all_single")), 1),
}
"""Collectives of torch.distributed on tensors, and the position of the tensor that is sent."""

OBJECTS = frozenset(DIST + name for name in (
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list", "recv_object_list",
))

BARRIERS = frozenset({DIST + "barrier", DIST + "monitored_barrier"})

OF_XLA = frozenset(XM + name for name in (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "collective_broadcast", "broadcast_master_param",
    "mesh_reduce", "rendezvous", "xla_rendezvous", "optimizer_step", "reduce_gradients",
))
"""Of torch_xla; a step and a reduction of gradients hold one."""

TOGETHER = frozenset(TENSORS) | OBJECTS | BARRIERS | OF_XLA

STARTS = frozenset({"torch_xla.launch", "torch_xla.distributed.xla_multiprocessing.spawn"})

INIT, NEW_GROUP = DIST + "init_process_group", DIST + "new_group"


def calls_of(module: Module, *names: str) -> list[ast.Call]:
    """Live calls, in source order."""
    return [call for call in module.names.calls(*names) if not is_dead(call)]


def is_gloo(group: ast.expr | None, module: Module) -> bool:
    """A group that this file makes with the gloo backend; without one, that the file's processes join."""
    if group is None or constant(group) is None and isinstance(group, ast.Constant):
        joined = calls_of(module, INIT)
        return bool(joined) and all(constant(argument(call, "backend", 0)) == "gloo" for call in joined)
    if isinstance(group, ast.Call):
        return NEW_GROUP in module.names.qualified(group.func) and constant(argument(group, "backend", 2)) == "gloo"
    made = given(group, module)
    return bool(made) and all(isinstance(value, ast.Call) and is_gloo(value, module) for value in made)


def given(node: ast.expr, module: Module) -> list[ast.expr | None]:
    """What a name was assigned where it stands, or an attribute anywhere in the file."""
    if isinstance(node, ast.Name):
        return [binding.value for binding in reaching(module.names.bindings(node), node) if binding.how == "assign"]
    if not isinstance(node, ast.Attribute):
        return []
    text = ast.unparse(node)
    return [assign.value for assign in module.facts.of(ast.Assign) if any(ast.unparse(target) == text for target in assign.targets)]


def has_replicas(module: Module) -> bool:
    """Does this file run as several processes on XLA: started by torch_xla, or in a group of its backend?"""
    if calls_of(module, *STARTS):
        return True
    return any(constant(argument(call, "backend", 0)) == "xla" for call in calls_of(module, INIT))


def runs_at_import(node: ast.AST) -> bool:
    """In the module's own code or a class's, not below `if __name__ == "__main__"`."""
    if any(isinstance(parent, (*FUNCTIONS, ast.Lambda)) for parent in ancestors(node)):
        return False
    return not any(isinstance(parent, ast.If) and "__name__" in ast.unparse(parent.test) for parent in ancestors(node))


def precedes(first: ast.AST, later: ast.AST) -> bool:
    """Both in one function (or both in the module's own code), the one above the other."""
    return enclosing_function(first) is enclosing_function(later) and first.lineno < later.lineno


def started_functions(module: Module) -> list[ast.AST]:
    """Functions of this file that run in each process."""
    found = []
    for call in calls_of(module, *STARTS):
        worker = argument(call, "fn", 0)
        if isinstance(worker, ast.Name):
            found += [binding.node for binding in module.names.bindings(worker) if isinstance(binding.node, FUNCTIONS)]
    return found


def is_index(node: ast.expr, module: Module) -> bool:
    """The first parameter of a function that torch_xla starts in each process: its ordinal."""
    if not isinstance(node, ast.Name):
        return False
    first = [item for function in started_functions(module) for item in function.args.args[:1]]
    return any(binding.node in first for binding in module.names.bindings(node))
