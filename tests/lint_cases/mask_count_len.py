# id: mask_count_len
# category: fallback
# title: mask count len
# verdict: sync+fallback

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    n = len(x[x > 0])  # expect: fallback
    return x.sum() / max(n, 1)
