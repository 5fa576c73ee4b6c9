"""Training over many chips: one process a host, arrays divided by annotation, collectives found by the compiler.

    from xlaport.runtime import fsdp
    mesh = fsdp.make_mesh()
    model = fsdp.wrap(model, mesh, mixed_precision="bf16", activation_checkpointing=True)
    for x, y in fsdp.shard_loader(loader, mesh): ...
    fsdp.save(model, optimizer, step, "ckpt/")
"""

from xlaport.runtime.fsdp.checkpoint import Resumed, Saving, latest_step, load, save
from xlaport.runtime.fsdp.clipping import clip_grad_norm_
from xlaport.runtime.fsdp.exporting import export
from xlaport.runtime.fsdp.loader import shard_batch, shard_loader
from xlaport.runtime.fsdp.mesh import Mesh, current_mesh, make_mesh
from xlaport.runtime.fsdp.planning import Plan, plan
from xlaport.runtime.fsdp.recompute import recompute
from xlaport.runtime.fsdp.wrapping import wrap

__all__ = [
    "Mesh", "Plan", "Resumed", "Saving", "clip_grad_norm_", "current_mesh", "export", "latest_step", "load", "make_mesh", "plan", "recompute", "save", "shard_batch",
    "shard_loader", "wrap",
]
