# id: m_helper
# category: sync
# title: m helper
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.scale(self.fc(x))

    def scale(self, y):
        s = y.abs().max()
        return y / s if s > 1 else y  # expect: sync

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
