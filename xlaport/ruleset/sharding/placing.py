"""Where a model is divided over the chips: written out in torch_xla, or by `xlaport.runtime` with `--runtime-library`."""

from __future__ import annotations

import ast

from xlaport.ruleset.api import Context, syntax
from xlaport.ruleset.sharding.settings import ALL_CHIPS, Wrapper

PRELUDE = "# One process drives all chips of a host; arrays are sharded over them by annotation.\nxr.use_spmd()\n"
MESH = f'xs.set_global_mesh(xs.Mesh(np.arange({ALL_CHIPS}), ({ALL_CHIPS},), ("{{axis}}",)))\n'
SHARD = (
    "# Shard every parameter over the chips along its first dimension.\n"
    "for fsdp_param in {model}.parameters():\n"
    '    xs.mark_sharding(fsdp_param, xs.get_global_mesh(), ("fsdp", *[None] * (fsdp_param.dim() - 1))[: fsdp_param.dim()])\n'
)


def divided(context: Context, wrapper: Wrapper, statement: ast.stmt, moves: bool = False):
    """A mesh of all chips, and statements that divide the model over it once the wrapper at `statement` is off; copies need none.

    `moves`: the model is put on the device first, as `fully_shard` does.
    """
    axis = "fsdp" if wrapper.is_sharded else "data"
    ops = context.prelude(PRELUDE + MESH.replace("{axis}", axis)) + context.ensure("xr", "xs", "np")
    if not wrapper.is_sharded:
        return ops
    target = target_of(wrapper, statement)
    name = context.text(target if target is not None else wrapper.module)
    optimizer = optimizer_statement(context, name, statement)
    anchor, where = (optimizer, "before") if optimizer is not None else (statement, "after")
    move = f"{name}.to({{device}})\n" if moves else ""
    return ops + context.insert(anchor, where, move + SHARD.replace("{model}", name))


def divided_before(context: Context, wrapper: Wrapper, statement: ast.stmt):
    """`return FSDP(model)`: the model is divided above the statement, under its own name or one of ours."""
    ops = context.prelude(PRELUDE + MESH.replace("{axis}", "fsdp")) + context.ensure("xr", "xs", "np")
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
        return context.replace_statement(statement, f"{mesh}\n{wrap}", **holes, **wrapper.mesh.holes) + rest
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
