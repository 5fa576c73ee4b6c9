# id: skip_nan_grad
# category: sync
# title: skip nan grad
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

def setup(device):
    w = nn.Parameter(torch.randn(4, 2).to(device))
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], w=w, opt=torch.optim.SGD([w], lr=0.1))


def step(i, s):
    s.opt.zero_grad()
    l = (s.xs[i] @ s.w).pow(2).mean()
    l.backward()
    ok = all(torch.isfinite(p.grad).all() for p in [s.w])  # expect: sync
    if ok:
        s.opt.step()
    return l.detach()
