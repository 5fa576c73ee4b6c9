# id: topk_k_changes
# category: clean
# title: topk k changes
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    k = 1 + i % 4
    return x.topk(k, dim=1).values.sum()
