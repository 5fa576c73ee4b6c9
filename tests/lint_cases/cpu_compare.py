# id: cpu_compare
# category: sync
# title: cpu compare
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    y = x.cpu()  # expect: sync
    if y.sum() > 0:
        return x
    return -x
