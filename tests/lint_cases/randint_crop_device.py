# id: randint_crop_device
# category: clean
# title: randint crop device
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    o = torch.randint(0, 4, (1,), device=x.device)
    return x.index_select(0, o + torch.arange(4, device=x.device)).sum()
