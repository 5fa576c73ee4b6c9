# id: acc_percent
# category: clean
# title: acc percent
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    pred = x.argmax(1)
    correct = (pred == 0).sum()
    acc = 100.0 * correct / x.size(0)
    return acc
