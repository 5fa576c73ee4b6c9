# id: m_codebook
# category: clean
# title: m codebook
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cb = nn.Embedding(8, 4)

    def forward(self, x):
        d = torch.cdist(x, self.cb.weight)
        k = d.argmin(1)
        return self.cb(k)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
