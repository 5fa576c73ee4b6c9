# id: acc_float
# category: clean
# title: acc float
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    pred = x.argmax(1)
    correct = (pred == 0).sum().float()
    s.acc = correct / len(x)
    return correct
