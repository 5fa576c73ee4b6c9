# id: scatter_
# category: clean
# title: scatter 
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(ids=[torch.randint(0, 9, (5,)).to(device) for _ in range(10)])


def step(i, s):
    return torch.zeros(9, device=s.ids[i].device).scatter_(0, s.ids[i], 1.0)
