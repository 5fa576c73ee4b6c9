# id: m_running_mean
# category: clean
# title: m running mean
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer('rm', torch.zeros(4))

    def forward(self, x):
        m = x.mean(0)
        self.rm = self.rm * 0.9 + m.detach() * 0.1
        return self.fc(x - self.rm)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
