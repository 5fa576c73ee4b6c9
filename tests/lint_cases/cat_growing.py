# id: cat_growing
# category: recompile
# title: cat growing
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    st = NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])
    st.buf = torch.zeros(1, 4, device=device)
    return st


def step(i, s):
    s.buf = torch.cat([s.buf, s.xs[i][:1]])  # expect: recompile
    return s.buf.sum()
