"""What would have to change for torchax, line by line. Nothing is edited."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Kind, syntax

CALLS = {
    ("torch.cuda.is_available",): "True, once torchax.enable_globally() was called",
    ("torch.cuda.device_count",): "jax.device_count()",
    ("torch.cuda.set_device", "torch.cuda.empty_cache"): "goes: JAX places and frees arrays itself",
    ("torch.cuda.synchronize",): "jax.block_until_ready of the values",
    ("torch.cuda.memory_allocated", "torch.cuda.max_memory_allocated", "torch.cuda.memory_reserved"): "memory_stats() of a jax device",
    ("torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"): "is not heard: torchax.default_env().manual_seed",
    ("torch.cuda.amp.autocast", "torch.autocast", "torch.amp.autocast"): "has no effect on linear layers: move the module with .to(torch.bfloat16)",
    ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler"): "goes: bfloat16 needs no scaling",
    ("torch.compile",): "torchax.compile, or interop.jax_jit of the whole step",
    ("torch.distributed.init_process_group",): "has no form: one process, and a jax mesh over its devices",
    ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard"): "cannot be used: shardings of jax, on the parameters",
    ("torch.multiprocessing.spawn",): "goes: one process drives all devices",
    ("torch.save",): "raises for arrays of JAX: move them to the CPU first",
    ("torch.profiler.profile",): "jax.profiler",
    ("torch.cuda.Event",): "time.perf_counter() around jax.block_until_ready",
}
LOADER = "torch.utils.data.DataLoader"


def check(context: Context):
    if not context.on_device:
        return
    for names, message in CALLS.items():
        for call in context.calls(*names):
            if not syntax.is_dead(call):
                yield context.finding(call, f"`{context.text(call.func)}`: {message}")
    yield from devices(context)
    yield from loaders(context)
    yield from training(context)


def devices(context: Context):
    for call in context.calls("torch.device"):
        if call.args and str(constant(call.args[0])).startswith("cuda") and not syntax.is_dead(call):
            yield context.finding(call, '"jax", after torchax.enable_globally()')
    for call in context.calls_of_method("cuda"):
        yield context.finding(call, '.cuda() raises there: .to("jax")')


def loaders(context: Context):
    for call in context.calls(LOADER):
        given = {keyword.arg: constant(keyword.value) for keyword in call.keywords}
        if not syntax.is_dead(call) and (given.get("pin_memory") or given.get("num_workers") not in (None, 0)):
            yield context.finding(call, "fails with worker processes and with pinned memory once torchax is on for all: num_workers=0, pin_memory=False")


def training(context: Context):
    for call in context.calls_of_method("backward"):
        if not call.args or Kind.TENSOR in context.values.guess(call.func.value):
            yield context.finding(call, "raises where a linear layer, a slice or a max pool came before: interop.jax_value_and_grad of a pure function, or train.make_train_step")
    for call in context.calls_of_method("step"):
        if isinstance(call.func, ast.Attribute) and Kind.OPTIMIZER in context.values.guess(call.func.value):
            yield context.finding(call, "an update of optax inside the functional step takes its place")
