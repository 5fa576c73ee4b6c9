# id: m_lengths_list
# category: recompile
# title: m lengths list
# verdict: sync+recompile

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        n = (x > 0).sum(1).tolist()  # expect: sync
        return torch.stack([r[: max(k, 1)].sum() for r, k in zip(x, n)])  # expect: recompile


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
