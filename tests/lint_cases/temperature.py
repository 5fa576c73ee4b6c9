# id: temperature
# category: clean
# title: temperature
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    t = 2.0 * 0.9 ** i + 0.15
    return F.softmax(x / t, -1)
