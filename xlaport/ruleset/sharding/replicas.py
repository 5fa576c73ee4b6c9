"""Wrappers of whole models that come off where every chip has a process and a copy of the model."""

from __future__ import annotations

import ast

from xlaport.analysis import collectives
from xlaport.analysis.parallel import COLLECTIVE_CALL
from xlaport.analysis.values import last_name
from xlaport.ruleset.api import Context, syntax
from xlaport.ruleset.sharding import placing, storage
from xlaport.ruleset.sharding.settings import FSDP1, Wrapper

MOVES = frozenset({"to", "cuda", "train", "eval", "float"})
START = "xm.broadcast_master_param({module})"


def start(context: Context, statement: ast.stmt) -> str:
    """The same start for all replicas, as the wrapper's constructor gave; a launch before it of what it may not share a graph with."""
    return "{sync}\n" + START if may_be_pending(context, statement) else START


def may_be_pending(context: Context, statement: ast.stmt) -> bool:
    """A collective above, which the backend does not pin to a layout, as the broadcast is: XLA refuses a graph that has both."""
    holders = context.project.functions_with(COLLECTIVE_CALL)
    return any(
        collectives.precedes(call, statement) and (not collectives.TENSORS.keys().isdisjoint(context.names.qualified(call.func)) or last_name(call.func) in holders)
        for call in context.facts.of(ast.Call)
    )


def target_of(statement: ast.stmt, call: ast.Call) -> ast.expr | None:
    """What the wrapped module is assigned to, by itself or moved on: `model = DDP(model).to(device)`."""
    node: ast.AST = call
    while isinstance(node.parent, ast.Attribute) and node.parent.attr in MOVES and isinstance(node.parent.parent, ast.Call):
        node = node.parent.parent
    if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
        return statement.targets[0]
    return None


def sharded_taken_off(context: Context, wrapper: Wrapper):
    """torch FSDP puts the model on the device, which is left to do; None in an expression that runs many times."""
    call, module, statement = wrapper.call, wrapper.module, syntax.statement_of(wrapper.call)
    if not syntax.runs_once(call):
        return None
    target = target_of(statement, call)
    if context.refers(call.func, FSDP1):
        if target is not None:
            return context.replace(call, "{module}.to({device})", module=module) + context.insert(statement, "after", start(context, statement), module=target)
        is_named = isinstance(module, (ast.Name, ast.Attribute))
        moved = context.insert(statement, "before", "{module}.to({device})\n" + start(context, statement), module=module) if is_named else []
        return context.replace(call, "{module}" if is_named else "{module}.to({device})", module=module) + moved
    name = context.text(target if target is not None else module)
    ops = context.remove(statement) if isinstance(statement, ast.Expr) else context.replace(call, "{module}", module=module)
    is_moved = placing.is_moved(context, wrapper, statement)
    if not is_moved and storage.comes_later(context.module, context.project):
        return ops
    return ops + placing.before_optimizer(context, name, statement, started(context, statement, name), moves=not is_moved)


def started(context: Context, statement: ast.stmt, name: str) -> str:
    return start(context, statement).replace("{module}", name) + "\n"
