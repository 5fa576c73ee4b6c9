# id: meter
# category: sync
# title: meter
# verdict: sync

from types import SimpleNamespace as NS

import torch

class Meter:
    def __init__(self):
        self.sum = 0
        self.n = 0
    def update(self, v, n=1):
        self.sum += v * n
        self.n += n

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], meter=Meter())


def step(i, s):
    l = s.xs[i].mean()
    s.meter.update(l.item(), 8)  # expect: sync
    return l
