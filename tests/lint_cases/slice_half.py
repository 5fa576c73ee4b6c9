# id: slice_half
# category: clean
# title: slice half
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    a, b = x[:4], x[4:]
    return (a - b).pow(2).sum()
