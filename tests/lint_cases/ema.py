# id: ema
# category: clean
# title: ema
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], e=torch.zeros(8, 4).to(device))


def step(i, s):
    d = min(0.99, (1 + i) / (13 + i))
    s.e.mul_(d).add_(s.xs[i], alpha=1 - d)
    return s.e
