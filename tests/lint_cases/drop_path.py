# id: drop_path
# category: clean
# title: drop path
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    keep = 0.9
    m = x.new_empty((x.shape[0], 1)).bernoulli_(keep)
    return x * m / keep
