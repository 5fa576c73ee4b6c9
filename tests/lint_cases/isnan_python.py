# id: isnan_python
# category: sync
# title: isnan python
# verdict: sync

import math
from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    loss = x.sum()
    if math.isnan(loss):  # expect: sync
        return x
    return x * 2
