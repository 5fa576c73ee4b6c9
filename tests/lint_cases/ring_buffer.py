# id: ring_buffer
# category: clean
# title: ring buffer
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    st = NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])
    st.buf = torch.zeros(16, 4, device=device)
    return st


def step(i, s):
    s.buf[i % 4] = s.xs[i][0]
    return s.buf.sum()
