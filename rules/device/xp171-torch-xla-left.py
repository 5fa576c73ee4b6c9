"""What is left of torch_xla: imports nothing uses any more, and uses that no other rule speaks of."""

from xlaport.ruleset.api import Context, is_below

MODULE = "torch_xla"
ADVICE = {
    "torch_xla.distributed.spmd": "SPMD is another model there: one process a device, init_device_mesh with DTensor or fully_shard",
    "torch_xla.runtime.use_spmd": "SPMD is another model there: one process a device, init_device_mesh with DTensor or fully_shard",
    "torch_xla.distributed.fsdp": "use torch's fully_shard, one process a device",
    "torch_xla.debug.metrics": "TorchTPU has no public metrics; torch.tpu._get_cache_stats() is private",
    "torch_xla.debug.profiler": "use torch.profiler with ProfilerActivity.PrivateUse1",
    "torch_xla.core.xla_model.get_memory_info": "TorchTPU 0.2 has no reading of device memory",
    "torch_xla.core.xla_model.reduce_gradients": "use DistributedDataParallel, or torch.distributed.all_reduce and a division",
    "torch_xla.core.xla_model.mesh_reduce": "use torch.distributed.all_gather_object, over a group that has gloo",
    "torch_xla.core.xla_model.all_reduce": "use torch.distributed.all_reduce, which works in place",
    "torch_xla.core.xla_model.all_gather": "use torch.distributed.all_gather_into_tensor, which fills a tensor it is given",
    "torch_xla.core.xla_model.reduce_scatter": "use torch.distributed.reduce_scatter_tensor, which fills a tensor it is given",
    "torch_xla.core.xla_model.get_rng_state": "TorchTPU has no public reading of its generator: seed again after a restart",
    "torch_xla.distributed.parallel_loader.ParallelLoader": "iterate over the loader itself, and move what a batch holds at the top of the loop",
    "torch_xla.experimental.custom_kernel": "use F.scaled_dot_product_attention, or torch.tpu.pallas",
}

SPOKEN_OF = ("torch_xla.core.xla_model.optimizer_step", "torch_xla.distributed.parallel_loader.MpDeviceLoader", "torch_xla.core.xla_model.save")
"""Reported by XP170 and XP820 where they are left."""


def check(context: Context):
    for node, bound, name, is_used in context.imports_below(MODULE):
        if not is_used:
            yield context.finding(node, f"`{name}` is imported and not used", context.drop_imported(node, bound), is_idiom=False)
    for name, node in context.named_below(MODULE):
        if name != MODULE and name not in SPOKEN_OF:
            yield context.finding(node, advice(name))


def advice(name: str) -> str:
    start = next((start for start in ADVICE if is_below(name, start)), "")
    return f"`{name}` has no form here that is safe to write: {ADVICE[start]}" if start else f"`{name}` is torch_xla's, which is not there"
