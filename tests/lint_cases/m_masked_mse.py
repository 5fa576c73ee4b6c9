# id: m_masked_mse
# category: fallback
# title: m masked mse
# verdict: sync+recompile+fallback

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        m = x > 0
        return F.mse_loss(y[m], x[m])  # expect: fallback,recompile


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
