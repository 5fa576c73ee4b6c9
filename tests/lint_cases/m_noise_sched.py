# id: m_noise_sched
# category: clean
# title: m noise sched
# verdict: clean

from types import SimpleNamespace as NS

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('al', torch.linspace(0.99, 0.1, 10))

    def forward(self, x):
        t = torch.randint(0, 10, (x.shape[0],), device=x.device)
        a = self.al[t][:, None]
        n = torch.randn_like(x)
        return a.sqrt() * x + (1 - a).sqrt() * n


def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], net=Net().to(device))


def step(i, s):
    return s.net(s.xs[i])
