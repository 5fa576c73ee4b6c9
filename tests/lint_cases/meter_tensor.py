# id: meter_tensor
# category: clean
# title: meter tensor
# verdict: clean

from types import SimpleNamespace as NS

import torch

class Meter:
    def __init__(self):
        self.sum = 0
    def update(self, v):
        self.sum = self.sum + v

def setup(device):
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], meter=Meter())


def step(i, s):
    l = s.xs[i].mean()
    s.meter.update(l.detach())
    return l
