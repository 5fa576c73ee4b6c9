# id: plateau
# category: sync
# title: plateau
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

def setup(device):
    w = nn.Parameter(torch.randn(4, 2).to(device))
    o = torch.optim.SGD([w], lr=0.1)
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], sch=torch.optim.lr_scheduler.ReduceLROnPlateau(o))


def step(i, s):
    l = s.xs[i].pow(2).mean()
    s.sch.step(l)  # expect: sync
    return l
