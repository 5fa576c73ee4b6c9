"""torch FSDP (`FullyShardedDataParallel`, `fully_shard`) becomes SPMD annotations of the parameters."""

import ast

from xlaport.ruleset.api import Context, Danger, Mode, Severity, syntax

WRAPPER = "torch.distributed.fsdp.FullyShardedDataParallel"
IN_PLACE = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard.fully_shard")
PRECISIONS = ("torch.distributed.fsdp.MixedPrecision", "torch.distributed.fsdp.MixedPrecisionPolicy")
PRELUDE = "# One process drives all chips of a host; arrays are sharded over them by annotation.\nxr.use_spmd()\n"
SHARD = (
    "# Shard every parameter over the chips along its first dimension.\n"
    'fsdp_mesh = xs.Mesh(np.arange(xr.global_runtime_device_count()), (xr.global_runtime_device_count(),), ("fsdp",))\n'
    "for fsdp_param in {model}.parameters():\n"
    '    xs.mark_sharding(fsdp_param, fsdp_mesh, ("fsdp", *[None] * (fsdp_param.dim() - 1))[: fsdp_param.dim()])\n'
)
SHARD_BATCH = 'xs.mark_sharding({batch}, fsdp_mesh, ("fsdp", *[None] * ({batch}.dim() - 1)))'


def check(context: Context):
    if context.mode is not Mode.SPMD:
        return
    calls = [call for call in context.calls(WRAPPER, *IN_PLACE) if call.args and not syntax.is_dead(call)]
    roots = roots_of(calls)
    for call in calls:
        is_root = call in roots
        ops = wrapper_ops(context, call, is_root) if context.refers(call.func, WRAPPER) else in_place_ops(context, call, is_root)
        yield context.finding(call, plan_of(context, call) if is_root else "the module is annotated as a whole instead", ops)
    yield from precisions(context)


def plan_of(context: Context, call: ast.Call) -> str:
    """What the wrapper's settings become, in one line."""
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}
    strategy = given.get("sharding_strategy", "FULL_SHARD").rpartition(".")[2]
    plan = f"{strategy} becomes parameters sharded over all chips by annotation"
    if strategy in {"HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"}:
        plan += ", without the copies of each host"
    if strategy in {"SHARD_GRAD_OP", "NO_SHARD"} or given.get("reshard_after_forward") == "False":
        plan += ": when to gather them is the compiler's choice"
    offloads = "True" in given.get("cpu_offload", "") or "Offload" in given.get("offload_policy", "") or given.get("cpu_offload", "None").endswith("True")
    return plan + ("; nothing is offloaded to the host" if offloads else "")


def precisions(context: Context):
    """What computed in bfloat16 computes in float32 now."""
    for call in context.calls(*PRECISIONS):
        low = [keyword for keyword in call.keywords if keyword.arg == "param_dtype" and not context.refers(keyword.value, "torch.float32")]
        if low and not syntax.is_dead(call):
            message = 'FSDP cast parameters to this type: compute under torch.autocast("xla", dtype=torch.bfloat16) instead'
            yield context.finding(call, message, danger=Danger.SLOW, severity=Severity.WARNING)


def roots_of(calls: list[ast.Call]) -> set[ast.Call]:
    """The last call of each scope, outside loops: it wraps the whole model."""
    last: dict[ast.AST, ast.Call] = {}
    for call in calls:
        if next(syntax.enclosing_loops(call), None) is None:
            last[syntax.enclosing_scope(call)] = call
    return set(last.values())


def wrapper_ops(context: Context, call: ast.Call, is_root: bool):
    module = call.args[0]
    statement = syntax.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not is_root:
        is_itself = target is not None and statement.value is call and context.text(target) == context.text(module)
        return context.remove(statement) if is_itself else context.replace(call, "{module}", module=module)
    ops = context.replace(call, "{module}.to({device})", module=module)
    if target is not None:
        ops += annotate(context, target, statement)
    return ops


def in_place_ops(context: Context, call: ast.Call, is_root: bool):
    statement = syntax.statement_of(call)
    if isinstance(statement, ast.Expr):
        ops = removed_with_loop(context, statement)
    else:
        ops = context.replace(call, "{module}", module=call.args[0])
    return ops + annotate(context, call.args[0], statement) if is_root else ops


def removed_with_loop(context: Context, statement: ast.stmt):
    """`for layer in model.layers: fully_shard(layer)` goes with its loop."""
    parent = statement.parent
    if isinstance(parent, ast.For) and parent.body == [statement] and not parent.orelse:
        return context.remove(parent)
    return context.remove(statement)


def annotate(context: Context, model: ast.expr, statement: ast.stmt):
    """Mark the parameters once they are on the device: before the optimizer that takes them, and the batches of the loop."""
    name = context.text(model)
    code = context.target.expand(SHARD).replace("{model}", name)
    optimizer = optimizer_statement(context, name, statement)
    anchor, where = (optimizer, "before") if optimizer is not None else (statement, "after")
    ops = context.insert(anchor, where, code)
    ops += context.prelude(PRELUDE)
    return ops + batch_marks(context, statement) + context.ensure("xs", "xr", "np")


def optimizer_statement(context: Context, name: str, after: ast.stmt) -> ast.stmt | None:
    scope = syntax.enclosing_scope(after)
    for call in context.facts.of(ast.Call):
        func = call.func
        takes = isinstance(func, ast.Attribute) and func.attr in {"parameters", "named_parameters"} and context.text(func.value) == name
        if takes and call.lineno > after.lineno and syntax.enclosing_scope(call) is scope and isinstance(call.parent, (ast.Call, ast.keyword)):
            return syntax.statement_of(call)
    return None


def batch_marks(context: Context, statement: ast.stmt):
    """Batches that the training loop of this scope puts on the device are sharded along their first dimension."""
    scope = syntax.enclosing_scope(statement)
    ops = []
    for step in context.training.steps:
        if step.loop is None or syntax.enclosing_scope(step.call) is not scope:
            continue
        for line in step.loop.body:
            if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name) and is_put_on_device(line.value):
                ops += context.insert(line, "after", SHARD_BATCH.replace("{batch}", line.targets[0].id))
    return ops


def is_put_on_device(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    is_move = isinstance(value.func, ast.Attribute) and value.func.attr in {"to", "cuda"}
    return is_move or any(keyword.arg == "device" for keyword in value.keywords)
