# id: m_dropout_mask
# category: clean
# title: m dropout mask
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if self.training:
            keep = torch.rand(x.shape[0], 1, device=x.device) > 0.1
            x = x * keep / 0.9
        return self.fc(x)


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
