# id: tqdm_postfix
# category: sync
# title: tqdm postfix
# verdict: sync

from types import SimpleNamespace as NS

import torch

def setup(device):
    from tqdm import tqdm
    return NS(xs=[torch.randn(8, 4).to(device) for _ in range(10)], bar=tqdm(disable=True))


def step(i, s):
    x = s.xs[i]
    l = x.mean()
    s.bar.set_postfix(loss=l.item())  # expect: sync
    return l
