"""Trains and saves, from the newest checkpoint if there is one: `python resuming_program.py URL STEPS '{"mesh": {...}}'`.

Prints `step N loss X random Y` for every step. Options: mesh, family, every (save each so many steps), asynchronous, keep,
export (a path to write at the end), memory (save to and load from memory:// in this process).
"""

import json
import sys
import warnings

import torch
import torch_xla
from families import FAMILIES, loss_of

from xlaport.runtime import fsdp


def main(url: str, steps: int, mesh=None, family="gpt", every=1, asynchronous=False, keep=None, export=None) -> None:
    warnings.simplefilter("ignore")
    chosen = FAMILIES[family]
    chips = fsdp.make_mesh(**(mesh or {}))
    model = fsdp.wrap(chosen.model(), chips, replicate_below=64)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    torch.manual_seed(7)
    start = 0
    if fsdp.latest_step(url) is not None:
        resumed = fsdp.load(model, optimizer, url)
        start = resumed.step
        scheduler.load_state_dict(resumed.extra["scheduler"])
        print("resumed", start, flush=True)
    batches = [chosen.batch(step) for step in range(start, steps)]
    for step, (inputs, targets) in enumerate(fsdp.shard_loader(batches, chips), start):
        loss = loss_of(model(*inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.9g} random {torch.rand(()).item():.9g}", flush=True)
        if (step + 1) % every == 0:
            fsdp.save(model, optimizer, step + 1, url, extra={"scheduler": scheduler.state_dict()}, asynchronous=asynchronous, keep=keep)
    if export:
        fsdp.export(model, export)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), **json.loads(sys.argv[3]))
