# id: list_index
# category: clean
# title: list index
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return x[[0, 2, 4]].sum()
