# id: pad_mode
# category: clean
# title: pad mode
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i][None, None]
    return F.pad(x, (1, 1, 1, 1), mode='reflect').sum()
