# id: module_clean
# category: clean
# title: module clean
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, d, norm=True):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d) if norm else None
        self.layers = nn.ModuleList([nn.Linear(d, d) for _ in range(3)])
    def forward(self, x, mask=None):
        b, d = x.shape
        h = self.fc(x).view(b, 2, d // 2)
        if mask is not None:
            h = h * mask
        h = h.reshape(b, -1)
        for k, layer in enumerate(self.layers):
            h = layer(h) + x if k % 2 == 0 else layer(h)
        return self.norm(h) if self.norm is not None else h

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net(4).to(device))


def step(i, s):
    return s.net(s.xs[i], mask=None)
