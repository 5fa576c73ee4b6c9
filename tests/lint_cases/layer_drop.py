# id: layer_drop
# category: recompile
# title: layer drop
# verdict: recompile

import random
from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    for k in range(4):
        if random.random() < 0.3:  # expect: recompile
            continue
        x = torch.tanh(x + k)
    return x
