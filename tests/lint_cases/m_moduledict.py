# id: m_moduledict
# category: clean
# title: m moduledict
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.Linear(4, 2)})

    def forward(self, x):
        return {k: l(x) for k, l in self.heads.items()}['a']


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
