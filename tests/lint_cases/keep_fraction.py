# id: keep_fraction
# category: recompile
# title: keep fraction
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    n = int(x.shape[0] * (0.1 + 0.08 * i)) + 1
    return x[:n].sum()  # expect: recompile
