# id: m_onehot_codebook
# category: clean
# title: m onehot codebook
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cb = nn.Embedding(8, 4)

    def forward(self, x):
        d = (x[:, None] - self.cb.weight[None]).pow(2).sum(-1)
        k = d.argmin(1)
        h = F.one_hot(k, 8).float()
        p = h.mean(0)
        return h @ self.cb.weight + p.sum()


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
