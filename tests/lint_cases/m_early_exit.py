# id: m_early_exit
# category: sync
# title: m early exit
# verdict: sync

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        for k in range(3):
            x = torch.tanh(self.fc(x))
            if (x.abs() < 0.1).all():  # expect: sync
                break
        return x


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
