# id: m_running_item
# category: sync
# title: m running item
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.avg = 0.0
        self.n = 0

    def forward(self, x):
        self.n += 1
        self.avg = self.avg + (x.mean().item() - self.avg) / self.n  # expect: sync
        return self.fc(x)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
