"""Training over many chips: one process a host, arrays divided by annotation, collectives found by the compiler.

    from xlaport.runtime import fsdp
    mesh = fsdp.make_mesh()
    model = fsdp.wrap(model, mesh, mixed_precision="bf16", activation_checkpointing=True)
    for x, y in fsdp.shard_loader(loader, mesh): ...
"""

from xlaport.runtime.fsdp.clip import clip_grad_norm_
from xlaport.runtime.fsdp.loader import shard_loader
from xlaport.runtime.fsdp.mesh import Mesh, make_mesh
from xlaport.runtime.fsdp.wrapping import wrap

__all__ = ["Mesh", "clip_grad_norm_", "make_mesh", "shard_loader", "wrap"]
