# id: arange_i
# category: recompile
# title: arange i
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    pos = torch.arange(i, i + 4, device=x.device)  # expect: recompile
    return x + pos
