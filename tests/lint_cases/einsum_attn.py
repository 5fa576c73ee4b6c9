# id: einsum_attn
# category: clean
# title: einsum attn
# verdict: clean

import math
from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    a = torch.einsum('bd,cd->bc', x, x) / math.sqrt(x.shape[-1])
    m = torch.ones(8, 8, device=x.device).tril()
    a = a.masked_fill(m == 0, float('-inf'))
    return a.softmax(-1) @ x
