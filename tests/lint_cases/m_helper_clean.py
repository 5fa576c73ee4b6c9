# id: m_helper_clean
# category: clean
# title: m helper clean
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.scale(self.fc(x), 2)

    def scale(self, y, k):
        if k > 1 and y.ndim == 2:
            y = y * k
        return y / y.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
