"""Five families of small models, as a user writes them, with made-up batches: for the tests and benches of sharding.

Widths are small but divide by 8; vocabularies and numbers of classes do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 16
"""Of a global batch."""


class CausalAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = CausalAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Decoder with tied embeddings."""

    def __init__(self, dim: int = 32, layers: int = 2, vocabulary: int = 67, context: int = 16) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


class GroupedAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, *, rotation):
        b, t, c = x.shape
        q = rotated(self.q_proj(x).view(b, t, self.heads, self.size), rotation)
        k = rotated(self.k_proj(x).view(b, t, self.kv_heads, self.size), rotation)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.size)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=2) for part in (k, v))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))


def rotated(x, rotation):
    cosine, sine = rotation
    first, second = x.float().chunk(2, dim=-1)
    cosine, sine = cosine[None, :, None], sine[None, :, None]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).type_as(x)


class LlamaLayer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.input_norm, self.post_norm = RMSNorm(dim), RMSNorm(dim)
        self.self_attn = GroupedAttention(dim, 8, 2)
        self.gate_proj, self.up_proj = nn.Linear(dim, 88, bias=False), nn.Linear(dim, 88, bias=False)
        self.down_proj = nn.Linear(88, dim, bias=False)

    def forward(self, x, rotation=None):
        x = x + self.self_attn(self.input_norm(x), rotation=rotation)
        y = self.post_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """Grouped queries, rotary positions, gated feed-forward; the rotation is a buffer that layers get by keyword."""

    def __init__(self, dim: int = 32, layers: int = 2, vocabulary: int = 67, context: int = 16) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(LlamaLayer(dim) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocabulary, bias=False)
        angles = torch.outer(torch.arange(context).float(), 10000 ** -torch.arange(0, 1, 2 / (dim // 8)))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        length = ids.shape[1]
        for layer in self.layers:
            x = layer(x, rotation=(self.cosine[:length], self.sine[:length]))
        return {"logits": self.lm_head(self.norm(x))}


class EncoderBlock(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, dim: int = 32, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, 17, dim) * 0.02)
        self.encoder = nn.Sequential(*(EncoderBlock(dim) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.layer1 = nn.Sequential(Residual(16, 16), Residual(16, 16))
        self.layer2 = nn.Sequential(Residual(16, 32, 2), Residual(32, 32))
        self.fc = nn.Linear(32, classes)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(self.stem(images))).mean((2, 3)))


class T5Block(nn.Module):
    """Self-attention with a bias for relative positions, in the decoder also attention to the encoder."""

    def __init__(self, dim: int, heads: int, is_decoder: bool) -> None:
        super().__init__()
        self.heads, self.is_decoder = heads, is_decoder
        self.norms = nn.ModuleList(RMSNorm(dim) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        if is_decoder:
            self.cross = nn.MultiheadAttention(dim, heads, batch_first=True, bias=False)
        self.wi, self.wo = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x, bias, memory=None):
        b, t, c = x.shape
        y = self.norms[0](x)
        q, k, v = (layer(y).view(b, t, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(c // self.heads) + bias
        if self.is_decoder:
            scores = scores.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), float("-inf"))
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        if memory is not None:
            x = x + self.cross(self.norms[1](x), memory, memory, need_weights=False)[0]
        return x + self.wo(F.relu(self.wi(self.norms[2](x)))), bias


class T5(nn.Module):
    """Encoder and decoder share an embedding, which is the head too; blocks hand on their bias."""

    def __init__(self, dim: int = 32, layers: int = 2, vocabulary: int = 67) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocabulary, dim)
        self.encoder = nn.ModuleList(T5Block(dim, 4, False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Block(dim, 4, True) for _ in range(layers))
        self.distances = nn.Embedding(31, 4)
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.shared.weight

    def bias(self, length, device):
        places = torch.arange(length, device=device)
        return self.distances(places[:, None] - places[None, :] + 15).permute(2, 0, 1)[None]

    def forward(self, source, target):
        x, bias = self.shared(source), self.bias(source.shape[1], source.device)
        for block in self.encoder:
            x, bias = block(x, bias)
        y, bias = self.shared(target), self.bias(target.shape[1], target.device)
        for block in self.decoder:
            y, bias = block(y, bias, memory=x)
        return self.head(self.norm(y))


@dataclass(frozen=True)
class Family:
    """`batch(step)` gives inputs of the model, and the targets that `loss` compares its result with."""

    build: Callable[[], nn.Module]
    batch: Callable[[int], tuple[tuple[torch.Tensor, ...], torch.Tensor]]
    block: type[nn.Module]

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        model = self.build()
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)
        return model


def tokens(step: int, count: int = 1) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    rows = torch.randint(0, 67, (ROWS, 17), generator=generator)
    rows = (rows.cumsum(1) * 3) % 67
    return (rows[:, :-1],) * count, rows[:, 1:]


def images(step: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    classes = torch.randint(0, 10, (ROWS,), generator=generator)
    return (torch.randn(ROWS, 3, 16, 16, generator=generator) + classes.view(-1, 1, 1, 1) / 5,), classes


FAMILIES = {
    "gpt": Family(GPT, tokens, Block),
    "llama": Family(Llama, tokens, LlamaLayer),
    "vit": Family(ViT, images, EncoderBlock),
    "resnet": Family(ResNet, images, Residual),
    "t5": Family(T5, lambda step: tokens(step, 2), T5Block),
}


def loss_of(result, targets: torch.Tensor) -> torch.Tensor:
    logits = result["logits"] if isinstance(result, dict) else result
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
