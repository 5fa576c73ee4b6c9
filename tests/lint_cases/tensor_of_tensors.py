# id: tensor_of_tensors
# category: sync
# title: tensor of tensors
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    v = torch.tensor([r.sum() for r in x])  # expect: sync
    return v
