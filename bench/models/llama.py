"""Llama models and a training step of them, sharded in three ways, for `xlaport preflight --factory bench/models/llama.py:step`."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
import torch_xla.distributed.spmd as xs
from torch import nn
from torch_xla.utils.checkpoint import checkpoint


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    groups: int
    """Heads of keys and values."""

    hidden: int
    length: int


SIZES = {
    "1b": Size(22, 2048, 32, 4, 5632, 2048),  # TinyLlama
    "7b": Size(32, 4096, 32, 32, 11008, 2048),
    "70b": Size(80, 8192, 64, 8, 28672, 4096),  # Llama 2
}
VOCABULARY = 32000


class RMSNorm(nn.Module):
    """In float32, as the reference has it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        keys = size.groups * size.width // size.heads
        self.attention_norm, self.mlp_norm = RMSNorm(size.width), RMSNorm(size.width)
        self.q_proj, self.o_proj = linear(size.width, size.width), linear(size.width, size.width)
        self.k_proj, self.v_proj = linear(size.width, keys), linear(size.width, keys)
        self.gate_proj, self.up_proj, self.down_proj = linear(size.width, size.hidden), linear(size.width, size.hidden), linear(size.hidden, size.width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        h = self.attention_norm(x)
        q, k, v = (projected(h).view(batch, length, -1, width // self.size.heads).transpose(1, 2) for projected in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (rotated(part, cos, sin) for part in (q, k))
        k, v = (part.repeat_interleave(self.size.heads // self.size.groups, 1) if self.size.groups != self.size.heads else part for part in (k, v))
        x = x + self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))
        h = self.mlp_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Llama(nn.Module):
    def __init__(self, size, recompute):
        super().__init__()
        self.size, self.recompute = size, recompute
        self.tokens = nn.Embedding(VOCABULARY, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm, self.head = RMSNorm(size.width), linear(size.width, VOCABULARY)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        half = self.size.width // self.size.heads // 2
        frequencies = 10000.0 ** -(torch.arange(half, device=ids.device).float() / half)
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), frequencies).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, preserve_rng_state=False) if self.recompute else block(x, cos, sin)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))


def step(size="1b", chips=1, sequences=1, sharding="wrap", layers=0):
    """bfloat16 weights and AdamW state, layers recomputed, `sequences` a chip.

    `sharding`: "wrap" by xlaport.runtime.fsdp, "class" by torch_xla's FSDPv2, "marks" by annotations of weights alone. `layers`: fewer than the size has.
    """
    chosen = SIZES[size]._replace(**({"layers": layers} if layers else {}))
    batch = chips * sequences, chosen.length
    return {
        "model": lambda: Llama(chosen, recompute=sharding != "wrap").to(torch.bfloat16),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        "batch": {"ids": (batch, torch.int64), "labels": (batch, torch.int64)},
        "step": lambda model, batch: model(batch["ids"], batch["labels"]),
        "layers": [Block],
        "shard": {"wrap": wrap, "class": "fsdp", "marks": mark}[sharding],
    }


def wrap(model):
    from xlaport.runtime import fsdp

    return fsdp.wrap(model, fsdp.make_mesh(), activation_checkpointing=True)


def mark(model):
    """Every weight over all chips along its first dimension, and nothing else."""
    import numpy
    import torch_xla.runtime as xr

    chips = xr.global_runtime_device_count()
    mesh = xs.Mesh(numpy.arange(chips), (chips,), ("fsdp",))
    xs.set_global_mesh(mesh)
    for parameter in model.parameters():
        xs.mark_sharding(parameter, mesh, ("fsdp", *[None] * (parameter.dim() - 1)))
