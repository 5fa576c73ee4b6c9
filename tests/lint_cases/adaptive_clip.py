# id: adaptive_clip
# category: clean
# title: adaptive clip
# verdict: clean

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
    g = s.w.grad.norm()
    s.w.grad.mul_(torch.clamp(1.0 / (g + 1e-6), max=1.0))
    s.opt.step()
    return l.detach()
