# id: m_pos_cache
# category: clean
# title: m pos cache
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pe = None

    def forward(self, x):
        n = x.shape[0]
        if self.pe is None or self.pe.shape[0] < n:
            self.pe = torch.arange(n, device=x.device).float()[:, None]
        return x + self.pe[:n]


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
