# id: index_put
# category: clean
# title: index put
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i] + 0
    x[torch.tensor([0, 2], device=x.device)] = 1.0
    return x
