"""Trains families of models, sharded and not, and prints what each did: `python sharded_program.py '[{...}, ...]'`.

Each case is a dict of `Case`. One process has one number of devices (`CPU_NUM_DEVICES`); the reference is the CPU.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch
import torch_xla
import torch_xla.runtime as xr
from families import FAMILIES, loss_of

from xlaport.runtime import fsdp

STEPS = 20


@dataclass(frozen=True)
class Case:
    """`mesh` and `wrap` are arguments of `make_mesh` and `wrap`; `on_cpu` runs the plain model there.

    `autocast`: on the CPU, in bfloat16. `perturbed`: the seed of a relative perturbation of the initial weights by 1e-7, about
    one rounding of float32; 0 is none.
    """

    family: str
    mesh: dict = field(default_factory=dict)
    wrap: dict = field(default_factory=dict)
    on_cpu: bool = False
    autocast: bool = False
    perturbed: int = 0
    rate: float = 1e-3
    clip: float | None = None
    micro_batches: int = 1
    steps: int = STEPS


def train(case: Case) -> dict:
    family = FAMILIES[case.family]
    model = family.model()
    perturb(model, case.perturbed)
    mesh = None
    if not case.on_cpu:
        mesh = fsdp.make_mesh(**case.mesh)
        model = fsdp.wrap(model, mesh, **{"replicate_below": 64, **case.wrap})
    before = {name: value.detach().cpu().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), case.rate, momentum=0.9) if case.family == "resnet" else torch.optim.AdamW(model.parameters(), case.rate)
    batches = [micro for step in range(case.steps) for micro in micro_batches(family.batch(step), case.micro_batches)]
    if mesh is not None:
        batches = fsdp.shard_loader(batches, mesh)
    losses, norms, total = [], [], 0.0
    for number, (inputs, targets) in enumerate(batches):
        with torch.autocast("cpu", torch.bfloat16, enabled=case.autocast):
            loss = loss_of(model(*inputs), targets) / case.micro_batches
        loss.backward()
        total = total + loss.detach()
        if (number + 1) % case.micro_batches:
            continue
        if case.clip is not None:
            norms.append(fsdp.clip_grad_norm_(model, case.clip))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
        total = 0.0
    return {
        "losses": [loss.item() for loss in losses],
        "norms": [norm.item() for norm in norms],
        "changed": sum(not torch.equal(before[name], value.detach().cpu()) for name, value in model.named_parameters()),
        "parameters": len(before),
        "buffers": {name: value.float().sum().item() for name, value in model.named_buffers()},
        "tied": model.head.weight is getattr(model, "tokens", getattr(model, "shared", None)).weight if case.family in {"gpt", "t5"} else None,
        **({} if mesh is None else sizes(model, optimizer, mesh)),
    }


def perturb(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters() if seed else ():
        with torch.no_grad():
            parameter.mul_(1 + 1e-7 * torch.randn(parameter.shape, generator=generator))


def micro_batches(batch, count: int) -> list:
    inputs, targets = batch
    return list(zip(zip(*(part.chunk(count) for part in inputs)), targets.chunk(count)))


def sizes(model, optimizer, mesh) -> dict:
    """Bytes of parameters and optimizer state: on each device, together, and as the plan says."""
    parameters = dict(model.named_parameters())
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor) and value.dim()]
    layouts = model._xlaport_fsdp.layouts
    return {
        "on_device": {kind: bytes_by_device(tensors) for kind, tensors in (("parameters", list(parameters.values())), ("states", states))},
        "whole_state": sum(value.numel() * 4 for value in states),
        "whole": sum(parameter.numel() * 4 for parameter in parameters.values()),
        "planned": sum(layout.bytes_on_chip(mesh) for layout in layouts.values()),
    }


def bytes_by_device(tensors: list) -> dict[str, int]:
    found: Counter = Counter()
    for shards in torch_xla._XLAC._get_local_shards([tensor.detach() for tensor in tensors]) if xr.is_spmd() else []:
        for data, device in shards:
            found[device] += data.numel() * data.element_size()
    return dict(found)


def main() -> None:
    warnings.simplefilter("ignore")
    xr.global_runtime_device_count()  # before a backward pass on the CPU: autograd counts the devices there are, once
    print(json.dumps([train(Case(**case)) for case in json.loads(sys.argv[1])]))


if __name__ == "__main__":
    main()
