# id: m_routing_dense
# category: clean
# title: m routing dense
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        g = self.fc(x).softmax(-1)
        k = g.argmax(-1)
        out = torch.zeros_like(x)
        for e in range(4):
            out = out + x * (e + 1) * (k == e).unsqueeze(-1)
        return out


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
