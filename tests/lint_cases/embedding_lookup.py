# id: embedding_lookup
# category: clean
# title: embedding lookup
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(ids=[torch.randint(0, 9, (5,)).to(device) for _ in range(10)], table=torch.randn(9, 3).to(device))


def step(i, s):
    return s.table[s.ids[i]].sum()
