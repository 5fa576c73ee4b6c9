# id: percent_format
# category: sync
# title: percent format
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    s.t = 'loss %f' % x.sum()  # expect: sync
    return x
