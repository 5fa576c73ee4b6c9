# id: dict_batch
# category: clean
# title: dict batch
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F

def setup(device):
    return NS(bs=[{'x': torch.randn(8, 4), 'y': torch.randint(0, 4, (8,))} for _ in range(10)], dev=device)


def step(i, s):
    b = s.bs[i]
    x = b['x'].to(s.dev)
    y = b['y'].to(s.dev)
    l = F.cross_entropy(x, y)
    return l
