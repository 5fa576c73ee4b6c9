# id: gather_last
# category: clean
# title: gather last
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], n=[torch.tensor([k % 8]).to(device) for k in range(10)])


def step(i, s):
    x = s.xs[i]
    n = s.n[i]
    return x.gather(0, n.view(1, 1).expand(1, 4))
