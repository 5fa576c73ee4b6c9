# id: sched_step
# category: clean
# title: sched step
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

def setup(device):
    w = nn.Parameter(torch.randn(4, 2).to(device))
    o = torch.optim.AdamW([w], lr=0.1)
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], w=w, opt=o, sch=torch.optim.lr_scheduler.CosineAnnealingLR(o, 20), lrs=[])


def step(i, s):
    s.opt.zero_grad()
    l = (s.xs[i] @ s.w).pow(2).mean()
    l.backward()
    s.opt.step()
    s.sch.step()
    lr = s.opt.param_groups[0]['lr']
    s.lrs.append(lr)
    return l.detach()
