# id: mixup_perm_host
# category: clean
# title: mixup perm host
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    p = torch.randperm(x.size(0))
    return x + x[p]
