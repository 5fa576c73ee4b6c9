"""The arguments of a traced program in their order, and what each is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch

from xlaport.preflight.step import Argument
from xlaport.preflight.trace import lazy, sharding


@dataclass(frozen=True)
class Named:
    """What a value is: `kind` is parameter, buffer, optimizer, gradient, batch, state, scalar or seed."""

    kind: str
    name: str
    sharding: str | None = None


def arguments(outputs: Sequence[torch.Tensor], names: Mapping[int, Named], batch: Collection[int] = ()) -> list[Argument]:
    """The arguments of the program of these outputs. One is donated when a result replaces its value.

    What nothing owns is of the batch when its number is among those, else a state of the program.
    """
    ids, values = lazy.argument_ids(outputs)
    replaced = {lazy.alias_id(output) for output in lazy.pending(outputs)}
    seed = lazy.seed_id()
    found = []
    for number, value in zip(ids, values):
        known = names.get(number) or nameless(value, number == seed)
        if known.kind == "state" and number in batch and number not in replaced:
            known = replace(known, kind="batch")
        found.append(argument(value, known, number in replaced))
    return found


def nameless(value: torch.Tensor, is_seed: bool) -> Named:
    if is_seed:
        return Named("seed", "random seed")
    return Named("state" if value.dim() else "scalar", "")


def argument(value: torch.Tensor, known: Named, donated: bool) -> Argument:
    dtype = str(value.dtype).removeprefix("torch.")
    size = prod(value.shape) * value.element_size()
    return Argument(known.kind, known.name, tuple(value.shape), dtype, size // sharding.shards(known.sharding), known.sharding, donated)
