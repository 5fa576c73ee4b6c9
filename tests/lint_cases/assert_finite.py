# id: assert_finite
# category: sync
# title: assert finite
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    assert torch.isfinite(x).all()  # expect: sync
    return x * 2
