# id: m_checkpoint_flag
# category: clean
# title: m checkpoint flag
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.use_ck = False

    def forward(self, x):
        if self.use_ck and self.training:
            x = x * 1.0
        return self.fc(x)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
