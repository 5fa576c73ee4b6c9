"""Sort short number sequences with a transformer whose blocks are recomputed in the backward pass."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")

device = "cuda"


class SquaredReLU(torch.autograd.Function):
    """relu(x)^2 that keeps only its input, in float32."""

    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.relu(x).square()

    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * F.relu(x) * grad


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(SquaredReLU.apply(self.up(self.norm2(x))))


class Sorter(nn.Module):
    def __init__(self, vocab=16, length=12, dim=32, heads=4, depth=3, recompute=True):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(length, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)
        self.recompute = recompute

    def forward(self, x):
        x = self.tokens(x) + self.positions
        for block in self.blocks:
            if self.training and self.recompute:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--no-recompute", dest="recompute", action="store_false")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    model = Sorter(recompute=args.recompute).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    data = torch.Generator().manual_seed(42)

    model.train()
    running = torch.zeros((), device=device)
    history = []
    for step in range(args.steps):
        x = torch.randint(0, 16, (args.batch_size, 12), generator=data)
        y = x.sort(dim=1).values
        x, y = x.to(device), y.to(device)

        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

        running = 0.9 * running + 0.1 * loss.detach()
        history.append(loss.detach())

    for step, loss in enumerate(torch.stack(history).tolist()):
        print(f"step {step} loss {loss}")
    print(f"running loss {running.item():.4f}, peak memory {torch.cuda.max_memory_allocated() / 2**20:.1f} MB")


if __name__ == "__main__":
    main()
