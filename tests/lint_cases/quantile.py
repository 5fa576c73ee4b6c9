# id: quantile
# category: clean
# title: quantile
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    return s.xs[i].quantile(0.5)
