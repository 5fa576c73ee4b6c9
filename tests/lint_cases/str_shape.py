# id: str_shape
# category: clean
# title: str shape
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    s.t = f'{x.shape} {x.dtype} {x.device}'
    return x
