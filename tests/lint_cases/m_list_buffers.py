# id: m_list_buffers
# category: clean
# title: m list buffers
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.ws = nn.ParameterList([nn.Parameter(torch.randn(4, 4)) for _ in range(3)])

    def forward(self, x):
        out = []
        for w in self.ws:
            out.append(x @ w)
        return sum(out) / len(out)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
