# id: stack_list_growing
# category: recompile
# title: stack list growing
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    st = NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])
    st.hist = []
    return st


def step(i, s):
    s.hist.append(s.xs[i].mean())
    return torch.stack(s.hist).mean()  # expect: recompile
