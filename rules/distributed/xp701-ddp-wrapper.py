"""`DistributedDataParallel(model, ...)`: on XLA the optimizer step reduces, so the wrapper comes off."""

import ast

from xlaport.ruleset.api import Context, Danger, Mode, syntax
from xlaport.ruleset.sharding import placing, replicas
from xlaport.ruleset.sharding.settings import DDP, Wrapper, read

HOLDS = "derive it from nn.Module, with the model as self.module and a forward that calls it"
CUDA_ARGUMENTS = ("device_ids", "output_device", "delay_allreduce")


def check(context: Context):
    if context.mode in (Mode.MP, Mode.SPMD):
        yield from subclasses(context)
    for call in context.calls(*DDP):
        if syntax.is_dead(call) or not call.args:
            continue
        if context.mode is Mode.KEEP:
            yield from kept(context, call)
        elif context.mode is Mode.SPMD and (wrapper := read(context, call, has_inner=False)) is not None:
            ops = placing.by_library(context, wrapper) if context.settings.runtime_library else copied(context, wrapper)
            said = ("every chip has a copy of the model, and the compiler averages the gradients", *wrapper.left, "a loader's batch is that of all chips")
            yield context.finding(call, "; ".join(said), ops)
        else:
            yield context.finding(call, message(call), unwrapped(context, call))


def subclasses(context: Context):
    """A wrapper that the program derives from torch's has methods of its own, which a plain model lacks."""
    for node in context.facts.of(ast.ClassDef):
        base = next((base for base in node.bases if context.refers(base, *DDP)), None)
        if base is not None and not syntax.is_dead(node):
            message = f"{node.name} stays a DistributedDataParallel, which refuses device numbers and averages beside xm.optimizer_step: {HOLDS}"
            yield context.finding(base, message, danger=Danger.LOUD)


def copied(context: Context, wrapper: Wrapper):
    return unwrapped(context, wrapper.call) + placing.divided(context, wrapper, syntax.statement_of(wrapper.call))


def message(call: ast.Call) -> str:
    if any(keyword.arg == "find_unused_parameters" for keyword in call.keywords):
        return "the wrapper is taken off; a parameter unused in some replicas only would hang them: use all of them everywhere"
    return "the wrapper is taken off: xm.optimizer_step averages the gradients"


def unwrapped(context: Context, call: ast.Call):
    """The module itself, with its parameters broadcast once, as the wrapper's constructor did."""
    module = call.args[0]
    statement = syntax.statement_of(call)
    target = replicas.target_of(statement, call)
    is_replicated = context.mode is Mode.MP
    start = replicas.start(context, statement)
    if target is not None and statement.value is call and ast.unparse(target) == ast.unparse(module):
        if is_replicated:
            return context.replace_statement(statement, start, module=module)
        return context.remove(statement)
    ops = context.replace(call, "{module}", module=module)
    if is_replicated and target is not None:
        ops += context.insert(statement, "after", start, module=target)
    elif is_replicated and isinstance(module, (ast.Name, ast.Attribute)) and syntax.runs_once(call):
        ops += context.insert(statement, "before", start, module=module)
    return ops


def kept(context: Context, call: ast.Call):
    """`--distributed keep`: the wrapper works on the xla process group without CUDA device numbers."""
    present, positions = device_numbers(call)
    if present or positions:
        ops = context.edit_call(call, remove=present, positions=positions, gradient_as_bucket_view="True")
        yield context.finding(call, "the wrapper takes no device numbers on XLA", ops)


def device_numbers(call: ast.Call) -> tuple[list[str], list[int]]:
    """Names and positions of the arguments that number CUDA devices."""
    return [keyword.arg for keyword in call.keywords if keyword.arg in CUDA_ARGUMENTS], [index for index in (1, 2) if index < len(call.args)]


def check_torchtpu(context: Context):
    """The wrapper stays: it reduces over the process group, and needs no device numbers."""
    for call in context.calls(*DDP):
        if syntax.is_dead(call) or not call.args:
            continue
        present, positions = device_numbers(call)
        if present or positions:
            yield context.finding(call, ops=context.edit_call(call, remove=present, positions=positions))
