# id: mixup_perm
# category: clean
# title: mixup perm
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    p = torch.randperm(x.size(0), device=x.device)
    return x + x[p]
