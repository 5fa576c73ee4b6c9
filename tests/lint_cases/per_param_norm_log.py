# id: per_param_norm_log
# category: sync
# title: per param norm log
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

def setup(device):
    w = nn.Parameter(torch.randn(4, 2).to(device))
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], w=w)


def step(i, s):
    l = (s.xs[i] @ s.w).pow(2).mean()
    l.backward()
    n = {k: p.grad.norm().item() for k, p in [('w', s.w)]}  # expect: sync
    s.n = n
    s.w.grad = None
    return l.detach()
