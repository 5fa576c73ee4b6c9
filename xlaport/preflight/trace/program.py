"""The arguments of a traced program in their order, and what each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch

from xlaport.preflight.step import Argument
from xlaport.preflight.trace import lazy, sharding


@dataclass(frozen=True)
class Named:
    """What a value is: `kind` is parameter, buffer, optimizer, batch, state, scalar or seed."""

    kind: str
    name: str
    sharding: str | None = None


def arguments(outputs: Sequence[torch.Tensor], names: Mapping[int, Named], since: int | None = None) -> list[Argument]:
    """The arguments of the program of these outputs. One is donated when a result replaces its value.

    What has no name is of the batch when its number is above `since`, else a state of the program.
    """
    ids, values = lazy.argument_ids(outputs)
    replaced = {lazy.alias_id(output) for output in lazy.pending(outputs)}
    seed = lazy.seed_id()
    found = []
    for number, value in zip(ids, values):
        known = names.get(number) or nameless(number, value, since, number == seed)
        found.append(argument(value, known, number in replaced))
    return found


def nameless(number: int, value: torch.Tensor, since: int | None, is_seed: bool) -> Named:
    if is_seed:
        return Named("seed", "random seed")
    if value.dim() == 0:
        return Named("scalar", "")
    return Named("batch" if since is not None and number > since else "state", "")


def argument(value: torch.Tensor, known: Named, donated: bool) -> Argument:
    dtype = str(value.dtype).removeprefix("torch.")
    size = prod(value.shape) * value.element_size()
    return Argument(known.kind, known.name, tuple(value.shape), dtype, size // sharding.shards(known.sharding), known.sharding, donated)
