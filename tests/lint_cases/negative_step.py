# id: negative_step
# category: clean
# title: negative step
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return x[:, -1] + x[-1:].sum()
