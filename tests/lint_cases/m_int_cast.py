# id: m_int_cast
# category: clean
# title: m int cast
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        k = int(x.size(1) ** 0.5)
        return x.view(-1, k, k).transpose(1, 2).reshape(x.shape)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
