"""Where a model is divided over the chips: written out in torch_xla, or by `xlaport.runtime` with `--runtime-library`."""

from __future__ import annotations

import ast

from xlaport.analysis.parallel import FSDP
from xlaport.ruleset.api import Context, syntax
from xlaport.ruleset.sharding import storage
from xlaport.ruleset.sharding.settings import ALL_CHIPS, DDP, FSDP2, Wrapper

PRELUDE = "# One process drives all chips of a host; arrays are sharded over them by annotation.\nxr.use_spmd()\n"
MESH = f'xs.set_global_mesh(xs.Mesh(np.arange({ALL_CHIPS}), ({ALL_CHIPS},), ("{{axis}}",)))\n'
SHARD = (
    "# Shard every parameter over the chips along its first dimension.\n"
    "for fsdp_param in {model}.parameters():\n"
    '    xs.mark_sharding(fsdp_param, xs.get_global_mesh(), ("fsdp", *[None] * (fsdp_param.dim() - 1))[: fsdp_param.dim()])\n'
)
STORAGE = "if any(parameter.is_meta for parameter in {module}.parameters()):\n    {module}.to_empty(device={device})\n"
"""Before a wrap that needs storage; values are put into it afterwards, in place."""


def divided(context: Context, wrapper: Wrapper, statement: ast.stmt, moves: bool = False):
    """A mesh of all chips, and statements that divide the model over it once the wrapper at `statement` is off; copies need none.

    `moves`: the model is put on the device first, as `fully_shard` does.
    """
    is_other = context.refers(wrapper.call.func, *DDP) and context.project.program_mentions(context.module.source.path, FSDP)
    ops = mesh_made(context, "fsdp" if wrapper.is_sharded or is_other else "data")  # one mesh, where the program chooses between DDP and FSDP
    if not wrapper.is_sharded:
        return ops
    target = target_of(wrapper, statement)
    name = context.text(target if target is not None else wrapper.module)
    return ops + before_optimizer(context, name, statement, SHARD.replace("{model}", name), moves)


def mesh_made(context: Context, axis: str):
    return context.prelude(PRELUDE + MESH.replace("{axis}", axis)) + context.ensure("xr", "xs", "np")


def before_optimizer(context: Context, name: str, statement: ast.stmt, code: str, moves: bool):
    """Where there is no optimizer behind the statement, behind what gives a model on meta tensors its values."""
    optimizer = optimizer_statement(context, name, statement)
    anchor, where = (optimizer, "before") if optimizer is not None else (storage.with_values(statement, name), "after")
    move = f"{name}.to({{device}})\n" if moves else ""
    return context.insert(anchor, where, move + code)


def with_storage(context: Context, call: ast.Call, code: str):
    """Behind `model.to_empty(...)` of a model that another function has wrapped, once it has values."""
    name, statement = context.text(call.func.value), syntax.statement_of(call)
    outer = statement
    while isinstance(outer.parent, (ast.If, ast.With)) and optimizer_statement(context, name, outer) is None:
        outer = outer.parent
    if optimizer_statement(context, name, outer) is None:
        outer = statement
    return before_optimizer(context, name, outer, code, moves=outer is not statement)


def divided_before(context: Context, wrapper: Wrapper, statement: ast.stmt):
    """`return FSDP(model)`: the model is divided above the statement, under its own name or one of ours."""
    ops = mesh_made(context, "fsdp")
    if isinstance(wrapper.module, ast.Name):
        name, start = wrapper.module.id, "{module}.to({device})\n"
    else:
        name, start = "fsdp_model", "fsdp_model = {module}.to({device})\n"
    ops += context.insert(statement, "before", start + SHARD.replace("{model}", name), module=wrapper.module)
    return ops + context.replace(wrapper.call, name)


def is_moved(context: Context, wrapper: Wrapper, statement: ast.stmt) -> bool:
    """Does the function put the model on the device, or give it its values there?"""
    name, scope = context.text(wrapper.module), syntax.enclosing_scope(statement)
    for call in context.calls_of_method("to", "cuda", "to_empty"):
        holder = syntax.statement_of(call)
        is_result = isinstance(holder, ast.Assign) and holder.value is call and any(context.text(target) == name for target in holder.targets)
        if syntax.enclosing_scope(call) is scope and (is_result or context.text(call.func.value) == name):
            return True
    return False


def by_library(context: Context, wrapper: Wrapper):
    """`fsdp.wrap` in the wrapper's place. What wraps in place is put before the optimizer: by then the model has values."""
    holes = {"module": wrapper.module, **wrapper.policy.holes, **wrapper.precision.holes}
    wrap = "fsdp.wrap({module}, fsdp_mesh" + wrapper.policy.code + wrapper.precision.code + wrapper.parts.code + ")"
    mesh = f"fsdp_mesh = fsdp.make_mesh({wrapper.mesh.code})"
    statement = syntax.statement_of(wrapper.call)
    rest = context.prelude(PRELUDE) + context.ensure("xr", "fsdp")
    if isinstance(statement, ast.Expr) and statement.value is wrapper.call:
        optimizer = optimizer_statement(context, context.text(wrapper.module), statement)
        if optimizer is not None:
            return context.remove(statement) + context.insert(optimizer, "before", f"{mesh}\n{wrap}", **holes, **wrapper.mesh.holes) + rest
        valued = storage.with_values(statement, context.text(wrapper.module))
        if valued is not statement:
            return context.remove(statement) + context.insert(valued, "after", f"{mesh}\n{wrap}", **holes, **wrapper.mesh.holes) + rest
        start = STORAGE if context.refers(wrapper.call.func, FSDP2) and storage.comes_later(context.module, context.project) else ""
        return context.replace_statement(statement, f"{start}{mesh}\n{wrap}", **holes, **wrapper.mesh.holes) + rest
    if hasattr(statement, "body") or syntax.enclosing(wrapper.call, ast.Lambda, ast.comprehension) is not None:
        inline = wrap.replace("fsdp_mesh", f"fsdp.make_mesh({wrapper.mesh.code})")
        return context.replace(wrapper.call, inline, **holes, **wrapper.mesh.holes) + rest
    return context.insert(statement, "before", mesh, **wrapper.mesh.holes) + context.replace(wrapper.call, wrap, **holes) + rest


def target_of(wrapper: Wrapper, statement: ast.stmt) -> ast.expr | None:
    """What the wrapped module is assigned to."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and wrapper.call in ast.walk(statement.value):
        return statement.targets[0]
    return None


def optimizer_statement(context: Context, name: str, after: ast.stmt) -> ast.stmt | None:
    """The statement of the same block that gives the parameters of a model to an optimizer, or holds what does.

    Where that is in another block the wrap stays where it is: it may depend on a condition.
    """
    scope, later = syntax.enclosing_scope(after), syntax.following(after)
    for call in context.facts.of(ast.Call):
        func = call.func
        takes = isinstance(func, ast.Attribute) and func.attr in {"parameters", "named_parameters"} and context.text(func.value) == name
        if takes and syntax.enclosing_scope(call) is scope and isinstance(call.parent, (ast.Call, ast.keyword)):
            holder = next((parent for parent in syntax.ancestors(call) if parent in later), None)
            if holder is not None:
                return holder
    return None
