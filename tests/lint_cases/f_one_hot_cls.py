# id: f_one_hot_cls
# category: clean
# title: f one hot cls
# verdict: clean

from types import SimpleNamespace as NS

import torch
import torch.nn.functional as F

def setup(device):
    return NS(ids=[torch.randint(0, 9, (5,)).to(device) for _ in range(10)])


def step(i, s):
    return F.one_hot(s.ids[i], num_classes=9).float().sum(0)
