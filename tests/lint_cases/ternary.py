# id: ternary
# category: sync
# title: ternary
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    y = x if x.mean() > 0 else -x  # expect: sync
    return y
