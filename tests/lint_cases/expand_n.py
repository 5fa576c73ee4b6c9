# id: expand_n
# category: clean
# title: expand n
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return x[None].expand(2, -1, -1).sum()
