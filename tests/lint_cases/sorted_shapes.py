# id: sorted_shapes
# category: clean
# title: sorted shapes
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    d = sorted(x.shape)
    return x * d[0]
