"""GPT-2 and a training step of it, for `xlaport preflight --factory bench/models/gpt2.py:step`."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_xla.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(width, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tied embeddings, no dropout."""

    def __init__(self, vocabulary, layers, width, heads, length, recompute):
        super().__init__()
        self.recompute = recompute
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, preserve_rng_state=False) if self.recompute else block(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def step(batch=8, length=1024, vocabulary=50257, layers=12, width=768, heads=12, dtype="float32", autocast=None, recompute=False):
    """124,439,808 parameters. `dtype`: of weights and optimizer state; `autocast`: of products; `recompute`: each block in the backward pass."""
    return {
        "model": lambda: GPT2(vocabulary, layers, width, heads, length, recompute).to(getattr(torch, dtype)),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        "batch": {"ids": ((batch, length), torch.int64), "labels": ((batch, length), torch.int64)},
        "step": lambda model, batch: model(batch["ids"], batch["labels"]),
        "autocast": autocast,
    }
