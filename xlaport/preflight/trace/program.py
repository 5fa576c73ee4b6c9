"""Writing a traced step: the program, and a table of its arguments in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from xlaport.preflight.trace import lazy, sharding

PROGRAM = "step.mlirbc"


@dataclass(frozen=True)
class Named:
    """What a value is: `kind` is parameter, buffer, optimizer, batch, state, scalar or seed."""

    kind: str
    name: str
    sharding: str | None = None


@dataclass(frozen=True)
class Argument:
    """`bytes` on one device, as the program has it; the compiler may pad."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    sharding: str | None
    donated: bool


def arguments(outputs: Sequence[torch.Tensor], names: Mapping[int, Named]) -> list[Argument]:
    """The arguments of the program of these outputs. One is donated when an output replaces its value."""
    ids, values = lazy.argument_ids(outputs)
    replaced = {lazy.alias_id(output) for output in outputs}
    seed = lazy.seed_id()
    return [argument(number, value, names, number in replaced, number == seed) for number, value in zip(ids, values)]


def argument(number: int, value: torch.Tensor, names: Mapping[int, Named], donated: bool, is_seed: bool) -> Argument:
    known = names.get(number)
    if known is None:
        known = Named("seed", "random seed") if is_seed else Named("scalar" if value.dim() == 0 else "state", "")
    dtype = str(value.dtype).removeprefix("torch.")
    size = prod(value.shape) * value.element_size()
    return Argument(known.kind, known.name, tuple(value.shape), dtype, size // sharding.shards(known.sharding), known.sharding, donated)


def write(folder: Path, program: bytes, table: Sequence[Argument]) -> dict[str, Any]:
    """Put the program beside the answer; returns what the answer says of it."""
    (folder / PROGRAM).write_bytes(program)
    return {"program": PROGRAM, "arguments": [asdict(entry) for entry in table]}
