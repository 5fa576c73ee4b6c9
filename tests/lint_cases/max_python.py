# id: max_python
# category: clean
# title: max python
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    n = max(x.shape[0], 3)
    return x / n
