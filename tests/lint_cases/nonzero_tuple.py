# id: nonzero_tuple
# category: fallback
# title: nonzero tuple
# verdict: sync+recompile+fallback

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    r, cc = (x > 0).nonzero(as_tuple=True)  # expect: fallback
    return x[r, cc].sum()  # expect: recompile
