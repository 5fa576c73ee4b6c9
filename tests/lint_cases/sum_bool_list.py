# id: sum_bool_list
# category: clean
# title: sum bool list
# verdict: clean

from types import SimpleNamespace as NS

import torch

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])


def step(i, s):
    x = s.xs[i]
    flags = [x.shape[0] > 3, x.shape[1] > 3]
    return x * sum(flags)
