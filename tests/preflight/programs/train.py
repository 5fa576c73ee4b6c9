"""A migrated training script in several moods."""

import argparse
import os
import sys

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--mood", default="plain")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=12)
options = parser.parse_args()

rank = int(os.environ["LOCAL_RANK"]) if options.mood == "launched" else 0
device = xm.xla_device()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10)).to(device)
compiled = torch.compile(model, backend="openxla") if options.mood == "dynamo" else model  # line: dynamo
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches():
    return [(torch.randn(options.batch_size, 32), torch.randint(0, 10, (options.batch_size,))) for _ in range(options.steps)]


if options.mood == "early":
    raise ImportError("no such library")
if options.mood == "loader":
    for inputs, labels in pl.MpDeviceLoader(batches(), device):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    sys.exit()
if options.mood == "unnamed":
    for step, (inputs, labels) in enumerate(batches()):
        F.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        torch_xla.sync()
    sys.exit()
for step in range(options.steps):
    size = options.batch_size + (step if options.mood == "shapes" else 0)
    inputs, labels = torch.randn(size, 32).to(device), torch.randint(0, 10, (size,)).to(device)
    optimizer.zero_grad()
    if options.mood == "host":
        torch.linalg.qr(model[0].weight)[0].sum().backward()
    loss = F.cross_entropy(compiled(inputs), labels)
    if options.mood == "numbers":
        loss = loss + torch.roll(inputs, step + 1, dims=0)[0].sum()  # line: number
    loss.backward()
    if options.mood == "accumulate" and step % 3:
        torch_xla.sync()
        continue
    if options.mood == "never":
        optimizer.step()
        continue
    xm.optimizer_step(optimizer, barrier=True)
    if options.mood == "reads":
        print(f"loss {loss.item()}")  # line: item
    if options.mood == "raises":
        raise ValueError("no such step")
    if options.mood == "exits":
        forked = os.fork()
        if not forked:
            os._exit(3)
        if os.waitpid(forked, 0)[1] == 3 << 8:
            print("RuntimeError: it was caught", file=sys.stderr, flush=True)
            os._exit(4)
