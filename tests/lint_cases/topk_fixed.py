# id: topk_fixed
# category: clean
# title: topk fixed
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return x.topk(2, dim=1).values.sum()
