# id: module_forward
# category: sync
# title: module forward
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.step = 0
    def forward(self, x):
        self.step += 1
        h = self.fc(x)
        if self.training and self.step > 100:
            h = h * 2
        if h.abs().max() > 10:  # expect: sync
            h = h / 10
        return h

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
