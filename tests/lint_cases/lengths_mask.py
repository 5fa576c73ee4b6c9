# id: lengths_mask
# category: clean
# title: lengths mask
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], ns=[2, 3, 5, 4, 7, 6, 2, 8, 3, 5])


def step(i, s):
    x = s.xs[i]
    n = torch.tensor(s.ns[i]).to(x.device)
    m = torch.arange(8, device=x.device) < n
    return (x * m[:, None]).sum()
