# id: trainer_class_ok
# category: clean
# title: trainer class ok
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Trainer:
    def __init__(self, device):
        self.w = nn.Parameter(torch.randn(4, 2).to(device))
        self.opt = torch.optim.Adam([self.w], lr=0.01)
        self.total = torch.zeros((), device=device)

    def train_step(self, x):
        self.opt.zero_grad()
        loss = (x @ self.w).pow(2).mean()
        loss.backward()
        self.opt.step()
        self.total = self.total + loss.detach()
        return loss.detach()

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], t=Trainer(device))


def step(i, s):
    return s.t.train_step(s.xs[i])
