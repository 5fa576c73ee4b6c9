# id: assert_shape
# category: clean
# title: assert shape
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    assert x.shape == (8, 4) and x.dim() == 2, x.shape
    return x * 2
