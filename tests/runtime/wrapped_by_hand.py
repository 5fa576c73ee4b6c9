"""The wrap beside torch_xla's own class, each trained for two steps in a process: `python wrapped_by_hand.py ours|theirs gpt|vit`."""

import functools
import sys
import warnings

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from families import FAMILIES, GPT, ViT, loss_of
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

from xlaport.runtime import fsdp

ONE_LAYER = {"gpt": lambda: GPT(layers=1, vocabulary=68), "vit": lambda: ViT(layers=1)}
"""Sizes that the devices divide: where they do not, the wrap takes another dimension than torch_xla, which pads."""


def ours(model, block):
    return fsdp.wrap(model, fsdp.make_mesh(), block, replicate_below=0)


def theirs(model, block):
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(xr.global_runtime_device_count()), (xr.global_runtime_device_count(),), ("fsdp",))
    torch.__future__.set_swap_module_params_on_conversion(True)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={block})
    return SpmdFullyShardedDataParallel(model.to("xla"), mesh=mesh, auto_wrap_policy=policy)


def main(kind: str, name: str) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = {"ours": ours, "theirs": theirs}[kind](ONE_LAYER[name](), FAMILIES[name].block)
    mesh = xs.Mesh(np.arange(xr.global_runtime_device_count()), (xr.global_runtime_device_count(),), ("fsdp",))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(2):
        inputs, targets = FAMILIES[name].batch(step)
        inputs, targets = [value.to("xla") for value in inputs], targets.to("xla")
        for value in (*inputs, targets):
            xs.mark_sharding(value, mesh, ("fsdp", *[None] * (value.dim() - 1)))
        optimizer.zero_grad()
        loss_of(model(*inputs), targets).backward()
        optimizer.step()
        torch_xla.sync(wait=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
