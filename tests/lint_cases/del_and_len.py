# id: del_and_len
# category: clean
# title: del and len
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    out = []
    for r in x.split(2):
        out.append(r.sum())
    return torch.stack(out) / len(out)
