# id: zero_dim_compare_none
# category: clean
# title: zero dim compare none
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    t = None
    for row in x:
        t = row if t is None else t + row
    return t
