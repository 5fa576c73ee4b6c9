"""Policies and precisions of torch FSDP, as `fsdp.wrap` takes them."""

import ast

from xlaport.ruleset.api import Context, Mode, syntax
from xlaport.ruleset.sharding.settings import LOW, PARTIAL, PRECISIONS, parameter_type

WRAP = "torch.distributed.fsdp.wrap."
CLASSES = (WRAP + "transformer_auto_wrap_policy", "transformer_layer_cls")
SIZE = (WRAP + "size_based_auto_wrap_policy", "min_num_params")
CUSTOM = (WRAP + "lambda_auto_wrap_policy", "lambda_fn")
APPLIED = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing"
SMALLEST = 100_000_000
"""Parameters of a unit that torch's size_based_auto_wrap_policy takes where none is given."""


def check(context: Context):
    if context.mode is not Mode.SPMD or not context.settings.runtime_library:
        return
    for call in context.calls(*PRECISIONS):
        if not syntax.is_dead(call):
            yield precision(context, call)
    for call in context.calls(APPLIED):
        if not syntax.is_dead(call):
            yield context.finding(call, "units are computed again by xlaport.runtime", recomputed(context, call))
    for call in context.calls(*PARTIAL):
        if call.args and not syntax.is_dead(call):
            yield from partial(context, call)
    for name, template in ((WRAP + "ModuleWrapPolicy", "{given}"), (WRAP + "CustomPolicy", "lambda name, module: {given}(module)")):
        for call in context.calls(name):
            if call.args and not syntax.is_dead(call):
                yield context.finding(call, ops=context.replace(call, template, given=call.args[0]))
    for policy in context.uses(SIZE[0]):
        if not isinstance(policy, ast.Call) and not isinstance(policy.parent, ast.Compare) and not is_of_partial(context, policy):
            yield context.finding(policy, ops=context.replace(policy, f"{SMALLEST:_}"))


def is_of_partial(context: Context, policy: ast.expr) -> bool:
    """Is it the function of a partial, that `partial` converts with its arguments?"""
    call = policy.parent
    return isinstance(call, ast.Call) and call.args[:1] == [policy] and context.refers(call.func, *PARTIAL)


def recomputed(context: Context, call: ast.Call):
    """`apply_activation_checkpointing(model, check_fn=f)`; the wrapper it is given as well has no part in it."""
    model, check = syntax.argument(call, "model", 0), syntax.argument(call, "check_fn", 2)
    if model is None:
        return None
    if check is None:
        return context.replace(call, "fsdp.recompute({model})", model=model)
    return context.replace(call, "fsdp.recompute({model}, lambda name, module: {check}(module))", model=model, check=check)


def precision(context: Context, call: ast.Call):
    given = parameter_type(context, call)
    if given is None:
        return context.finding(call, "parameters were computed in their own type; gradients are reduced in theirs", context.replace(call, "None"))
    if context.refers(given, *LOW):
        return context.finding(call, "bfloat16, with float32 weights in the optimizer", context.replace(call, '"bf16"'))
    return context.finding(call, "the type that parameters are cast to", context.replace(call, "{given}", given=given))


def partial(context: Context, call: ast.Call):
    """`functools.partial(policy, name=value)`."""
    for (policy, name), template in ((CLASSES, "{given}"), (SIZE, "int({given})"), (CUSTOM, "lambda name, module: {given}(module)")):
        if not context.refers(call.args[0], policy):
            continue
        given = syntax.argument(call, name)
        if given is not None:
            yield context.finding(call, ops=context.replace(call, template, given=given))
        elif policy == SIZE[0]:
            yield context.finding(call, ops=context.replace(call, f"{SMALLEST:_}"))
