# id: losses_any
# category: sync
# title: losses any
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    losses = [x.mean(), x.pow(2).mean()]
    if any(l > 5 for l in losses):  # expect: sync
        return x
    return sum(losses)
