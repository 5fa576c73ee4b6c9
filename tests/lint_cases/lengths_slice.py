# id: lengths_slice
# category: recompile
# title: lengths slice
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], ns=[2, 3, 5, 4, 7, 6, 1, 8, 3, 5])


def step(i, s):
    x = s.xs[i]
    return x[: s.ns[i]].sum()  # expect: recompile
