"""Steps for the tests, as a user would describe them."""

import torch
import torch.nn.functional as F
from torch import nn


def mlp(width=2048, keep_gradients=False, dtype=torch.float32):
    return {
        "model": lambda: nn.Sequential(nn.Linear(512, width), nn.GELU(), nn.Linear(width, 10)).to(dtype),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        "batch": {"x": ((64, 512), dtype), "y": ((64,), "int64")},
        "step": lambda model, batch: F.cross_entropy(model(batch["x"]).float(), batch["y"]),
        "keep_gradients": keep_gradients,
    }


def frozen():
    """A first layer that is not trained, and a table."""
    def model():
        made = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 10))
        made[0].requires_grad_(False)
        made.register_buffer("table", torch.zeros(1000))
        return made

    return mlp() | {"model": model, "optimizer": lambda parameters: torch.optim.SGD([p for p in parameters if p.requires_grad])}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln2, self.fc, self.out = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(width, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2 with tied embeddings."""

    def __init__(self, vocabulary, layers, width, heads, length):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def gpt(batch=8, length=1024, vocabulary=50257, layers=12, width=768, heads=12, autocast=None, shard=None):
    return {
        "model": lambda: GPT(vocabulary, layers, width, heads, length),
        "optimizer": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        "batch": {"ids": ((batch, length), torch.int64), "labels": ((batch, length), torch.int64)},
        "step": lambda model, batch: model(batch["ids"], batch["labels"]),
        "autocast": autocast,
        "shard": shard,
    }


def tiny(batch=8, layers=6, shard=None):
    """A GPT that compiles in seconds."""
    return gpt(batch, 64, 512, layers, 64, 4, shard=shard)


def wrapped(batch=64, parts=1, inside=False):
    """The same, divided by xlaport.runtime.fsdp, with dropout that is computed again; `inside`: where the model is made."""
    def shard(model):
        from xlaport.runtime import fsdp

        return fsdp.wrap(model, fsdp.make_mesh(model=parts), mixed_precision="bf16", activation_checkpointing=True)

    def model():
        made = GPT(512, 2, 64, 4, 64)
        for block in made.blocks:
            block.out = nn.Sequential(block.out, nn.Dropout(0.1))
        return shard(made) if inside else made

    return tiny(batch) | {"model": model, "shard": None if inside else shard}


def one(forward, shape=(16, 16), layer=None):
    """A step over one linear layer and what `forward(layer, x)` makes of it."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer() if layer else nn.Linear(16, 16)

        def forward(self, x):
            return forward(self.layer, x)

    return {
        "model": Model,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        "batch": {"x": (shape, torch.float32)},
        "step": lambda model, batch: model(batch["x"]),
    }


def unlowered():
    def forward(layer, x):
        h = layer(x)
        q, r = torch.linalg.qr(h)  # line: qr
        return (q @ r).sum() + torch.special.i0(h).sum()  # line: i0

    return one(forward)


def reads():
    def forward(layer, x):
        h = layer(x)
        if h.sum() > 0:  # line: branch
            h = h * 2
        print(h)  # line: print
        scale = h.max().item()  # line: item
        return h.sum() / scale

    return one(forward)


def dynamic():
    def forward(layer, x):
        h = layer(x)
        chosen = h[h > 0]  # line: mask
        places = torch.nonzero(h)  # line: nonzero
        return chosen.sum() + places.float().sum()

    return one(forward)


def ctc():
    def forward(layer, x):
        log_probs = layer(x).view(16, 1, 16).log_softmax(-1)
        targets = torch.ones(1, 4, dtype=torch.int64, device=x.device)
        return F.ctc_loss(log_probs, targets, [16], [4])  # line: ctc

    return one(forward)


def usual():
    """Operations that are sometimes feared and all run on the device."""
    def forward(layer, x):
        h = F.dropout(layer(x), 0.1)
        values, _ = torch.topk(h, 4)
        return values.sum() + torch.sort(h)[0].sum() + torch.linalg.svd(h)[1].sum() + torch.randn_like(h).sum()

    return one(forward)


def raises():
    def forward(layer, x):
        raise ValueError("no such head")  # line: raise

    return one(forward)


def not_a_dict():
    return 3


def no_step():
    return {"model": lambda: nn.Linear(1, 1), "batch": {}, "stepp": None}


def other_optimizer():
    return one(lambda layer, x: layer(x).sum()) | {"optimizer": lambda parameters: torch.optim.Rprop(parameters)}


def ending():
    raise SystemExit(0)  # line: ending
