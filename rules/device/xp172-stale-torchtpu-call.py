"""Names of TorchTPU's pre-releases that 0.2 refuses or does not have."""

import ast

from xlaport.ruleset.api import Context, Danger, syntax

RENAMED = {
    "torch.tpu.is_available": "torch.accelerator.is_available",
    "torch.tpu.device_count": "torch.accelerator.device_count",
    "torch.tpu.current_device": "torch.accelerator.current_device_index",
    "torch.tpu.synchronize": "torch.accelerator.synchronize",
    "torch.tpu.set_stream": "torch.accelerator.set_stream",
    "torch.tpu.current_stream": "torch.accelerator.current_stream",
    "torch.backends.tpu.allow_excess_precision": "torch.tpu.allow_excess_precision",
}
DROPPED = ("torch.tpu.set_device", "torch.tpu.device")
"""They choose a device, and a process has one."""

DEVICE = "torch_tpu.api.tpu_device"
LEFT = {
    "torch.tpu.get_rng_state": "raises for user code since torch 2.13, and there is no other public way to read the generator: seed again after a restart",
    "torch.tpu.initial_seed": "raises for user code since torch 2.13: keep the number that was given to torch.manual_seed",
    "torch.tpu.distributed.environment": "is set_tpu_launch_env() of torch.tpu.distributed now, in the parent, before the workers start",
    "torch_tpu._internal.distributed.launchers": "is gone: torch.tpu.distributed.set_tpu_launch_env(), then torch.multiprocessing.spawn or torchrun",
    "torch_tpu.profiler": "is torch.profiler now, with the settings of torch.tpu.profiler",
    "torch_tpu.api": "is gone: torch.device(\"tpu\") and torch.accelerator have what it had",
}
GONE = ("torch_tpu.api", "torch_tpu.profiler", "torch_tpu._internal.distributed.launchers")


def check(context: Context):
    for name, new in RENAMED.items():
        for node in context.uses(name):
            named = node.func if isinstance(node, ast.Call) else node
            yield context.finding(node, f"`{name}` is `{new}` now", context.replace(named, new))
    for node in assigned(context, "torch.backends.tpu.allow_excess_precision"):
        yield context.finding(node, ops=context.replace(node, RENAMED["torch.backends.tpu.allow_excess_precision"]))
    for node in context.uses(*DROPPED):
        message = f"`{context.text(getattr(node, 'func', node))}` raises: a process has one device"
        yield context.finding(node, message, context.drop(node) if isinstance(node, ast.Call) else None)
    for node in context.uses(DEVICE):
        if isinstance(node, ast.Call):
            yield context.finding(node, ops=context.replace(node, "{device}"))
    yield from left(context)
    yield from imports(context)
    for node in context.facts.of(ast.Constant):
        new = context.target.renamed_variables.get(node.value) if isinstance(node.value, str) else None
        if new and not syntax.is_dead(node):
            yield context.finding(node, f"{node.value} is read by nothing: {new} is", context.replace(node, f'"{new}"'), danger=Danger.SILENT)


def assigned(context: Context, name: str):
    """Where a setting is given a value."""
    for node in context.facts.of(ast.Attribute):
        if isinstance(node.ctx, ast.Store) and node.attr == name.rpartition(".")[2] and context.refers(node, name) and not syntax.is_dead(node):
            yield node


def left(context: Context):
    """What has no form of one line."""
    for start, message in LEFT.items():
        for name, node in context.named_below(start):
            if name != DEVICE:
                yield context.finding(node.parent if syntax.is_called(node) else node, f"`{name}` {message}")


def imports(context: Context):
    """Of modules that are gone: taken out where nothing uses what they bind, which the finding at each use speaks of otherwise."""
    for node, bound, name, is_used in context.imports_below(*GONE):
        ops = None if is_used else context.drop_imported(node, bound)
        yield context.finding(node, f"`{name}` is not there in 0.2", ops, is_idiom=False)
