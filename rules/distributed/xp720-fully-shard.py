"""torch FSDP (`FullyShardedDataParallel`, `fully_shard`) becomes parameters divided over the chips."""

import ast

from xlaport.ruleset.api import Context, Danger, Mode, Severity, syntax
from xlaport.ruleset.sharding import placing, replicas, storage
from xlaport.ruleset.sharding.settings import (
    FSDP1, FSDP2, HYBRID, PARALLELIZE, PRECISIONS, Wrapper, arguments_of, parameter_type, read, strategy_of, whole_models,
)

REPLICATED = "every chip holds the whole model and its optimizer's state, and xm.optimizer_step averages: where that does not fit, --distributed spmd"
CLASS_METHODS = ("state_dict_type", "set_state_dict_type", "optim_state_dict", "full_optim_state_dict", "optim_state_dict_to_load", "shard_full_optim_state_dict")


def check(context: Context):
    if context.mode is Mode.MP:
        yield from replicated(context)
    if context.mode is not Mode.SPMD:
        return
    found = wrappers(context)
    for call, wrapper, is_root in found:
        if wrapper is None:
            yield context.finding(call, "what is wrapped is not written out here: divide its parameters by hand")
        elif not is_root:
            said = "the units of the whole model hold this module" if context.settings.runtime_library else "the module is annotated as a whole instead"
            yield context.finding(call, said, inner_ops(context, wrapper))
        elif context.settings.runtime_library:
            yield context.finding(call, plan_of(wrapper, by_library=True), placing.by_library(context, wrapper))
        else:
            ops = wrapper_ops(context, wrapper) if context.refers(call.func, FSDP1) else in_place_ops(context, wrapper)
            yield context.finding(call, plan_of(wrapper), ops)
    for call in storage.in_other_scopes(context.module, context.project):
        yield from given_storage(context, call)
    if not context.settings.runtime_library:
        yield from precisions(context)
    elif found:
        for call in context.calls(PARALLELIZE):
            if isinstance(call.parent, ast.Expr) and not syntax.is_dead(call):
                yield context.finding(call, "layers are cut by the rules of fsdp.wrap", removed_with_loop(context, call.parent))


def wrappers(context: Context) -> list[tuple[ast.Call, Wrapper | None, bool]]:
    """Each wrapper, what it says, and whether it holds a whole model."""
    calls = [call for call in context.calls(FSDP1, FSDP2) if not syntax.is_dead(call)]
    roots = whole_models(calls)
    return [(call, read(context, call, has_inner=len(calls) > 1), call in roots) for call in calls]


def replicated(context: Context):
    """`--distributed mp`: the wrapper comes off as DDP's does, and every chip holds the whole model."""
    for call, wrapper, is_root in wrappers(context):
        if wrapper is None:
            yield context.finding(call, "what is wrapped is not written out here: take the wrapper off by hand, or shard with --distributed spmd")
        elif not is_root:
            yield context.finding(call, "the whole model is taken instead", inner_ops(context, wrapper))
        else:
            yield context.finding(call, REPLICATED, replicas.sharded_taken_off(context, wrapper))
    for call in storage.in_other_scopes(context.module, context.project):
        yield context.finding(call, REPLICATED, placing.with_storage(context, call, replicas.started(context, syntax.statement_of(call), context.text(call.func.value))))
    yield from precisions(context)


def given_storage(context: Context, call: ast.Call):
    if not context.settings.runtime_library:
        yield context.finding(call, "the model is divided when it has storage and values", placing.mesh_made(context, "fsdp") + placing.with_storage(context, call, placing.SHARD.replace("{model}", context.text(call.func.value))))
    elif isinstance(call.parent, ast.Expr):
        yield context.finding(call, "the model is given storage where it is wrapped", context.remove(call.parent))
    else:
        yield context.finding(call, "the model is given storage where it is wrapped", context.replace(call, "{model}", model=call.func.value))


def check_torchtpu(context: Context):
    """`fully_shard` stays as it is. The wrapper is FSDP1: left, with its settings in the words of FSDP2."""
    for call in context.calls(FSDP1):
        if not syntax.is_dead(call):
            yield context.finding(call, fully_sharded(arguments_of(context, call)))
    for call in context.calls(*(f"{FSDP1}.{name}" for name in CLASS_METHODS)):
        if not syntax.is_dead(call):
            yield context.finding(call, "goes with FullyShardedDataParallel: fully_shard has get_model_state_dict of torch.distributed.checkpoint.state_dict")


def fully_sharded(given: dict[str, ast.expr]) -> str:
    parts = []
    if "auto_wrap_policy" in given:
        parts.append("first each module its policy wraps")
    if "mixed_precision" in given:
        parts.append("mp_policy=MixedPrecisionPolicy(...) for its mixed_precision")
    strategy = strategy_of(given)
    if strategy in {"SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2"}:
        parts.append("reshard_after_forward=False")
    if strategy in HYBRID:
        parts.append("a mesh of two dimensions")
    if strategy == "NO_SHARD":
        return "FSDP1 is not established for TorchTPU, and shards nothing here: DistributedDataParallel"
    return "FSDP1 is not established for TorchTPU: fully_shard(model) of torch.distributed.fsdp" + "".join(f", {part}" for part in parts)


def plan_of(wrapper: Wrapper, by_library: bool = False) -> str:
    """What the wrapper's settings become, in one line."""
    if by_library:
        parts = [f"mesh: {wrapper.mesh.said}", f"units: {wrapper.policy.said}", f"precision: {wrapper.precision.said}"]
    else:
        parts = ["parameters are sharded over all chips by annotation" + ("" if not wrapper.mesh.code else f", not {wrapper.mesh.said}")]
    return "; ".join([*parts, *wrapper.left, "a loader's batch is that of all chips"])


def precisions(context: Context):
    """What computed in bfloat16 computes in float32 now."""
    for call in context.calls(*PRECISIONS):
        if parameter_type(context, call) is not None and not syntax.is_dead(call):
            message = 'FSDP cast parameters to this type: compute under torch.autocast("xla", dtype=torch.bfloat16) instead'
            yield context.finding(call, message, danger=Danger.SLOW, severity=Severity.WARNING)


def inner_ops(context: Context, wrapper: Wrapper):
    call, module = wrapper.call, wrapper.module
    statement = syntax.statement_of(call)
    if not context.refers(call.func, FSDP1):
        return removed_with_loop(context, statement) if isinstance(statement, ast.Expr) else context.replace(call, "{module}", module=module)
    target = placing.target_of(wrapper, statement)
    is_itself = target is not None and statement.value is call and context.text(target) == context.text(module)
    return context.remove(statement) if is_itself else context.replace(call, "{module}", module=module)


def wrapper_ops(context: Context, wrapper: Wrapper):
    statement = syntax.statement_of(wrapper.call)
    if not syntax.runs_once(wrapper.call):
        return None
    if placing.target_of(wrapper, statement) is not None:
        return context.replace(wrapper.call, "{module}.to({device})", module=wrapper.module) + placing.divided(context, wrapper, statement)
    return placing.divided_before(context, wrapper, statement)


def in_place_ops(context: Context, wrapper: Wrapper):
    if not syntax.runs_once(wrapper.call):
        return None
    statement = syntax.statement_of(wrapper.call)
    target = placing.target_of(wrapper, statement)
    is_itself = target is not None and statement.value is wrapper.call and context.text(target) == context.text(wrapper.module)
    goes = isinstance(statement, ast.Expr) or is_itself
    ops = removed_with_loop(context, statement) if goes else context.replace(wrapper.call, "{module}", module=wrapper.module)
    if not placing.is_moved(context, wrapper, statement) and storage.comes_later(context.module, context.project):
        return ops + placing.mesh_made(context, "fsdp")
    return ops + placing.divided(context, wrapper, statement, moves=not placing.is_moved(context, wrapper, statement))


def removed_with_loop(context: Context, statement: ast.stmt):
    """`for layer in model.layers: fully_shard(layer)` goes with its loop, and so does a condition around it."""
    while isinstance(statement.parent, (ast.For, ast.If)) and all(goes(context, other) for other in statement.parent.body) and not statement.parent.orelse:
        statement = statement.parent
    return context.remove(statement)


def goes(context: Context, statement: ast.stmt) -> bool:
    """A wrap in place of a part, or a condition around nothing else."""
    if isinstance(statement, ast.If):
        return not statement.orelse and all(goes(context, other) for other in statement.body)
    takes = (FSDP2, PARALLELIZE) if context.settings.runtime_library else (FSDP2,)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and context.refers(statement.value.func, *takes)
