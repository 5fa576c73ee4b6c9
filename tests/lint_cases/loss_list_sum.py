# id: loss_list_sum
# category: clean
# title: loss list sum
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    losses = [x.mean(), x.pow(2).mean()]
    total = sum(losses)
    names = {k: v for k, v in zip('ab', losses)}
    return total + names['a']
