# id: bool_any
# category: sync
# title: bool any
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    bad = bool((x > 3).any())  # expect: sync
    return x if not bad else x * 0
