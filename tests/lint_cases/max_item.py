# id: max_item
# category: sync
# title: max item
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    st = NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])
    st.m = 0.0
    return st


def step(i, s):
    x = s.xs[i]
    s.m = max(s.m, float(x.max()))  # expect: sync
    return x
