# id: int_tensor
# category: clean
# title: int tensor
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    n = int(x.shape[0] * 0.5)
    return x[:n].sum()
