# id: tensor_i
# category: clean
# title: tensor i
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    t = torch.tensor([i], device=x.device)
    return x + t
