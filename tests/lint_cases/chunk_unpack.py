# id: chunk_unpack
# category: clean
# title: chunk unpack
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    q, k, v = s.xs[i].chunk(3, dim=0) if s.xs[i].shape[0] == 9 else (s.xs[i],) * 3
    return q @ k.T @ v
