# id: m_ce_ignore
# category: clean
# title: m ce ignore
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
        k = (x[:, 0] > 0).long()
        return F.cross_entropy(self.fc(x), k, ignore_index=-100)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
