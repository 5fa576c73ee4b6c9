# id: unique_counts
# category: fallback
# title: unique counts
# verdict: sync+recompile+fallback

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    u, n = torch.unique((x * 2).int(), return_counts=True)  # expect: fallback
    return n.float().mean()  # expect: recompile
