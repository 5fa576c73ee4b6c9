# id: while_counter
# category: clean
# title: while counter
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    n = 0
    while n < 3:
        x = x * 1.1
        n += 1
    return x
