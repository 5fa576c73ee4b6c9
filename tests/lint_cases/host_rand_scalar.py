# id: host_rand_scalar
# category: clean
# title: host rand scalar
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    lam = torch.rand(1).item()
    return x * lam + x.flip(0) * (1 - lam)
