# id: randint_item
# category: recompile
# title: randint item
# verdict: recompile

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    o = torch.randint(0, 4, (1,)).item()
    return x[o : o + 4].sum()  # expect: recompile
