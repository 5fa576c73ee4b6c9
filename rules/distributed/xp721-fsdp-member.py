"""Members and classes of torch FSDP that plain modules and parameters do not have."""

import ast

from xlaport.analysis.parallel import FSDP
from xlaport.ruleset.api import Context, Danger, Kind, Mode, syntax
from xlaport.ruleset.sharding import meshes
from xlaport.ruleset.sharding.settings import DEVICE_MESH, FSDP1, FSDP2, PARALLELIZE

DROPPED_METHODS = frozenset(
    "unshard reshard set_modules_to_forward_prefetch set_modules_to_backward_prefetch set_requires_gradient_sync "
    "set_requires_all_reduce set_reshard_after_backward set_is_last_backward set_unshard_in_backward".split()
)
AUTO_WRAP = "torch.distributed.fsdp.wrap.wrap"
DROPPED_CALLS = ("torch.distributed.fsdp.wrap.enable_wrap", "torch.distributed.fsdp.register_fsdp_forward_method")
STATE_CALLS = (FSDP1 + ".summon_full_params", FSDP1 + ".set_state_dict_type", FSDP1 + ".state_dict_type")
WHOLE_STATES = {
    "torch.distributed.checkpoint.state_dict.get_model_state_dict": ("{0}.state_dict()", ("model",)),
    "torch.distributed.checkpoint.state_dict.set_model_state_dict": ("{0}.load_state_dict({1})", ("model", "model_state_dict")),
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict": ("{1}.state_dict()", ("model", "optimizers")),
    "torch.distributed.checkpoint.state_dict.set_optimizer_state_dict": ("{1}.load_state_dict({2})", ("model", "optimizers", "optim_state_dict")),
    FSDP1 + ".optim_state_dict": ("{1}.state_dict()", ("model", "optim")),
    FSDP1 + ".full_optim_state_dict": ("{1}.state_dict()", ("model", "optim")),
    FSDP1 + ".optim_state_dict_to_load": ("{2}", ("model", "optim", "optim_state_dict")),
}
"""What torch gathers and scatters for a checkpoint, as the state dict that holds whole values already; and the parameters used, in order."""

LEFT = ("torch.distributed.tensor.distribute_tensor", DEVICE_MESH, FSDP1 + ".shard_full_optim_state_dict")
SHARDED_TENSOR = "torch.distributed.tensor.DTensor"
WRAPPERS = (FSDP1, FSDP2)
SHARD_WORDS = ("FSDPModule", "DTensor", ".placements", "FullyShardedDataParallel")


def check(context: Context):
    is_replicated = context.mode is Mode.MP and context.project.program_mentions(context.module.source.path, FSDP)
    if context.mode is not Mode.SPMD and not is_replicated:
        return
    yield from methods(context)
    yield from assertions(context)
    yield from parts_of_meshes(context)
    yield from meshes.members(context)
    for call in context.calls(*STATE_CALLS):
        yield context.finding(call, "state dicts hold whole tensors", context.drop(call))
    for call in context.calls(*DROPPED_CALLS):
        if not syntax.is_dead(call):
            yield context.finding(call, "wraps parts of a model for torch FSDP", context.drop(call))
    for call in context.calls(AUTO_WRAP):
        if call.args and not syntax.is_dead(call):
            yield context.finding(call, "the module is annotated with the model it is in", context.replace(call, "{module}", module=call.args[0]))
    yield from guards(context)
    for call in context.calls(*WHOLE_STATES):
        if not syntax.is_dead(call):
            yield context.finding(call, "state dicts hold whole tensors", whole_state(context, call))
    for call in context.calls(*LEFT):
        if context.refers(call.func, DEVICE_MESH) and is_for_wrappers(context, call):
            yield context.finding(call, "the mesh of the annotations takes its place", context.remove(call.parent))
            continue
        if context.refers(call.func, DEVICE_MESH):
            yield context.finding(call, mesh_left(context))
            continue
        yield context.finding(call, "made for torch's sharded tensors: a state dict holds whole values; save it with xm.save")


def mesh_left(context: Context) -> str:
    if context.mode is Mode.MP:
        return "no group of torch is behind a device mesh on XLA: every chip holds the whole model"
    return "a device mesh of torch has a rank for each chip, and a sharded program one for each host: its sizes must multiply to xr.process_count()"


def whole_state(context: Context, call: ast.Call):
    """None where an argument that is needed is not written out."""
    name = next(name for name in context.names.qualified(call.func) if name in WHOLE_STATES)
    template, parameters = WHOLE_STATES[name]
    used = {index: parameter for index, parameter in enumerate(parameters) if "{%d}" % index in template}
    holes = {}
    for index, parameter in used.items():
        given = syntax.argument(call, parameter, index)
        if given is None or isinstance(given, (ast.List, ast.Tuple)):
            return None
        holes[parameter] = given
        template = template.replace("{%d}" % index, "{" + parameter + "}")
    return context.replace(call, template, **holes)


def is_for_wrappers(context: Context, call: ast.expr, depth: int = 0) -> bool:
    """`mesh = init_device_mesh(...)`, or a part of one, of which nothing is left once the wrappers are off."""
    statement = call.parent
    if not isinstance(statement, ast.Assign) or statement.value is not call or not all(isinstance(target, ast.Name) for target in statement.targets) or depth > 3:
        return False
    names = {target.id for target in statement.targets}
    uses = [node for node in context.facts.of(ast.Name) if node.id in names and isinstance(node.ctx, ast.Load)]
    takes = (*WRAPPERS, PARALLELIZE) if context.settings.runtime_library else WRAPPERS
    return all(
        any(isinstance(parent, ast.Call) and context.refers(parent.func, *takes) for parent in syntax.ancestors(use))
        or isinstance(use.parent, ast.Subscript) and is_for_wrappers(context, use.parent, depth + 1)
        or meshes.is_of_member(context, use)
        for use in uses
    )


def parts_of_meshes(context: Context):
    """`tp = mesh["tp"]` of a mesh that goes."""
    for call in context.calls(DEVICE_MESH):
        if not is_for_wrappers(context, call):
            continue
        names = {target.id for target in call.parent.targets}
        for node in context.facts.of(ast.Subscript):
            if isinstance(node.value, ast.Name) and node.value.id in names and is_for_wrappers(context, node):
                yield context.finding(node, "the mesh of the annotations takes its place", context.remove(node.parent))


def methods(context: Context):
    for call in context.facts.of(ast.Call):
        func = call.func
        if not isinstance(func, ast.Attribute) or context.names.qualified(func) or syntax.is_dead(call):
            continue
        if func.attr in DROPPED_METHODS and isinstance(call.parent, ast.Expr):
            yield context.finding(call, "gathering and prefetching are the compiler's work", context.remove(call.parent))
        elif func.attr == "full_tensor":
            yield context.finding(call, "a parameter is its whole value", whole(context, call))
        elif func.attr == "clip_grad_norm_" and (call.args or call.keywords) and Kind.MODULE in context.values.guess(func.value):
            yield context.finding(call, "a plain module has no clip_grad_norm_", clipped(context, call))


def clipped(context: Context, call: ast.Call):
    norm, kind = syntax.argument(call, "max_norm", 0), syntax.argument(call, "norm_type", 1)
    if norm is None:
        return None
    first = "fsdp.clip_grad_norm_({model}, {norm}" if context.settings.runtime_library else "torch.nn.utils.clip_grad_norm_({model}.parameters(), {norm}"
    more = {} if kind is None else {"kind": kind}
    return context.replace(call, first + (", norm_type={kind})" if more else ")"), model=call.func.value, norm=norm, **more)


def guards(context: Context):
    """`if isinstance(p.grad, DTensor):` around work that is to be done to plain tensors too."""
    for branch in context.facts.of(ast.If):
        test = branch.test
        is_asked = isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2
        if is_asked and context.refers(test.args[1], SHARDED_TENSOR) and not branch.orelse and not all(map(is_unwrapping, branch.body)) and not syntax.is_dead(branch):
            yield context.finding(branch, "no tensor is a DTensor: what this guards is not done", danger=Danger.SILENT)


def is_unwrapping(statement: ast.stmt) -> bool:
    """`x = x.full_tensor()`: nothing to do to a plain tensor."""
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Assign) and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {"full_tensor", "to_local"}


def whole(context: Context, call: ast.Call):
    """`p = p.full_tensor()` goes; elsewhere the value itself stays."""
    statement, value = call.parent, call.func.value
    if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [ast.unparse(value)]:
        return context.remove(statement)
    return context.replace(call, "{value}", value=value)


def assertions(context: Context):
    for statement in context.facts.of(ast.Assert):
        text = ast.unparse(statement.test)
        if any(word in text for word in SHARD_WORDS) or "dtype" in text and "param" in text and "bfloat16" in text:
            yield context.finding(statement, "asserts how torch FSDP keeps its shards", context.remove(statement))
