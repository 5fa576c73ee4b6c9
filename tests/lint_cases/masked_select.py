# id: masked_select
# category: fallback
# title: masked select
# verdict: sync+recompile+fallback

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    return x.masked_select(x > 0).sum()  # expect: fallback,recompile
