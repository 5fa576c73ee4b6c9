# id: m_alibi_mask
# category: clean
# title: m alibi mask
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        n = x.size(0)
        m = torch.full((n, n), float('-inf'), device=x.device).triu(1)
        a = x @ x.t() + m
        return a.softmax(-1) @ x


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
