# id: metric_dict
# category: sync
# title: metric dict
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    st = NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)])
    st.log = {}
    return st


def step(i, s):
    x = s.xs[i]
    loss = x.pow(2).mean()
    s.log['loss'] = loss.item()  # expect: sync
    return loss
