# id: m_spectral
# category: clean
# title: m spectral
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        w = self.fc.weight
        u = torch.linalg.svdvals(w)
        return F.linear(x, w / u[0])


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
