# id: masked_mean
# category: clean
# title: masked mean
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    m = x > 0
    return (x * m).sum() / m.sum()
