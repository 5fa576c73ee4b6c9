# id: m_routing
# category: fallback
# title: m routing
# verdict: sync+recompile+fallback

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
            rows = torch.where(k == e)[0]  # expect: fallback,recompile
            if rows.numel() > 0:  # expect: recompile
                out[rows] = x[rows] * (e + 1)
        return out


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
