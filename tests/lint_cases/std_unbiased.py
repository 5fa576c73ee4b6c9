# id: std_unbiased
# category: clean
# title: std unbiased
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return (x - x.mean(0)) / (x.std(0) + 1e-6)
