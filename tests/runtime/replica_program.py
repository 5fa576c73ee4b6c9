"""Trains as replicas and as one device, and prints what each saw as JSON: run with `replicas.environment(N)`."""

import json
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_backend
import torch_xla.runtime as xr

from xlaport.runtime import replicas

STEPS = 6
BATCH = 8
"""Rows of one replica."""


def batch(step: int, ranks: int):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ranks * BATCH, 16, generator=generator), torch.randn(ranks * BATCH, 1, generator=generator)


def build():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def train(rank: int, reduced: bool) -> dict:
    ranks, device = xr.world_size(), torch_xla.device()
    model, optimizer = build()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.0 if rank == 0 else torch.rand(()))  # the broadcast has something to do
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    xm.broadcast_master_param(model)
    losses, gradients = [], []
    for step in range(STEPS):
        x, y = (part[rank::ranks].to(device) for part in batch(step, ranks))
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        if reduced:
            xm.optimizer_step(optimizer, barrier=True)
        else:
            optimizer.step()
            torch_xla.sync()
        losses.append(loss.item())
        gradients.append([parameter.grad.flatten()[0].item() for parameter in model.parameters()])
    return {"losses": losses, "gradients": gradients, "weights": [parameter.sum().item() for parameter in model.cpu().parameters()]}


def accumulate(rank: int, fresh: bool) -> float:
    """A weight after a step of two backward passes and a clip that changes nothing."""
    device = torch_xla.device()
    model = torch.nn.utils.skip_init(nn.Linear, 3, 1, bias=False).to(device)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for scale in (1, 2):
        model(torch.full((2, 3), float(scale * (rank + 1))).to(device)).sum().backward()
    if fresh:
        for parameter in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
            parameter.grad = parameter.grad.clone()
    xm.reduce_gradients(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    optimizer.step()
    torch_xla.sync()
    return model.weight[0, 0].item()


def alone(ranks: int) -> dict:
    model, optimizer = build()
    losses, gradients = [], []
    for step in range(STEPS):
        x, y = batch(step, ranks)
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        gradients.append([parameter.grad.flatten()[0].item() for parameter in model.parameters()])
    return {"losses": losses, "gradients": gradients, "weights": [parameter.sum().item() for parameter in model.parameters()]}


def exchange(rank: int) -> dict:
    """Each replica has its own process groups and random numbers."""
    dist.init_process_group("xla", init_method="xla://")
    side = dist.new_group(backend="gloo")
    total = torch.tensor([float(rank)]).to(torch_xla.device())
    dist.all_reduce(total)  # read below, with no launch between
    torch.manual_seed(rank)
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, [rank, total.item()], group=side)
    dist.all_reduce(total)
    torch_xla.sync(wait=True)  # for what the other has not launched yet
    xm.rendezvous("barrier")
    return {"found": found, "random": torch.rand(()).item(), "sum": xm.mesh_reduce("sum", rank, sum)}


def wait(rank: int) -> float:
    """Each launch is waited for, by one replica while the others may have launched the next."""
    for step in range(3):
        total = xm.all_reduce("sum", torch.ones(1).to(torch_xla.device()) + step)
        torch_xla.sync(wait=True)
    return total.item()


def fail(rank: int) -> None:
    torch_xla.sync()
    if rank == 1:
        raise ValueError("rank 1 fails")
    torch_xla.sync()


def main() -> None:
    count = replicas.device_count()
    seen = {"right": replicas.run(train, (True,)), "drifting": replicas.run(train, (False,)), "exchange": replicas.run(exchange), "waiting": replicas.run(wait), "accumulated": {kind: replicas.run(accumulate, (kind == "fresh",)) for kind in ("fresh", "in place")}, "alone": alone(count)}
    try:
        replicas.run(fail)
    except ValueError as error:
        seen["failure"] = str(error)
    with replicas.launching():
        launched = []
        torch_xla.launch(lambda rank, *args: launched.append((rank, args)), args=("given",))
    seen["launched"] = launched
    seen["random"] = [torch.rand((), generator=torch.Generator().manual_seed(rank)).item() for rank in range(count)]
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
