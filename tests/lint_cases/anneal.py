# id: anneal
# category: clean
# title: anneal
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    beta = min(1.0, 0.3 + i / 20)
    return x * beta
