# id: grad_norm_item
# category: sync
# title: grad norm item
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

def setup(device):
    w = nn.Parameter(torch.randn(4, 2).to(device))
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], w=w, opt=torch.optim.SGD([w], lr=0.1), skip=0)


def step(i, s):
    s.opt.zero_grad()
    l = (s.xs[i] @ s.w).pow(2).mean()
    l.backward()
    n = torch.nn.utils.clip_grad_norm_([s.w], 1.0)
    if n > 10:  # expect: sync
        s.skip += 1
    s.opt.step()
    return l.detach()
