# id: numpy_detach
# category: sync
# title: numpy detach
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    a = x.detach().cpu().numpy()  # expect: sync
    s.m = a.mean()
    return x
