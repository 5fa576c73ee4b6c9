# id: m_staticmethod
# category: clean
# title: m staticmethod
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.shift(x)

    @staticmethod
    def shift(y):
        return torch.where(y > 0, y, 0.1 * y)

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
