# id: m_sort_nms
# category: fallback
# title: m sort nms
# verdict: sync+recompile+fallback

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        s, o = x[:, 0].sort(descending=True)
        keep = s > 0
        return x[o][keep]  # expect: fallback,recompile


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
