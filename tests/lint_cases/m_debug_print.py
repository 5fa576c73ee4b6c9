# id: m_debug_print
# category: clean
# title: m debug print
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.verbose = False

    def forward(self, x):
        y = self.fc(x)
        if self.verbose:
            print(y.mean().item())
        return y


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
