"""What a factory returns: a dict that says how a training step is made. The user's module imports nothing of xlaport.

    def preflight(batch_size=8):
        return {
            "model": lambda: GPT(config),                              # built on the meta device: no weights
            "optimizer": lambda parameters: torch.optim.AdamW(parameters),
            "batch": {"ids": ((batch_size, 1024), torch.int64)},       # the global batch under SPMD
            "step": lambda model, batch: model(batch["ids"]),          # returns the loss
        }

Optional: `autocast` (a dtype), `layers` (classes of the repeated blocks), `shard` (`"fsdp"`, or a callable that annotates the
model), `keep_gradients` (True where the loop clears them only at its start), and a third element of a batch entry (its
partition spec). `optimizer` may be missing: then the step is a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from xlaport.errors import UserError

OPTIONAL = ("optimizer", "autocast", "layers", "shard", "keep_gradients")


@dataclass(frozen=True)
class Entry:
    """One tensor of the batch."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    spec: tuple | None = None


@dataclass(frozen=True)
class Step:
    model: Callable[[], torch.nn.Module]
    batch: Mapping[str, Entry]
    step: Callable[[torch.nn.Module, Mapping[str, torch.Tensor]], torch.Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    autocast: torch.dtype | None = None
    layers: tuple[type, ...] = ()
    shard: str | Callable[[torch.nn.Module], torch.nn.Module | None] | None = None
    keep_gradients: bool = False


def read(made: Any, name: str) -> Step:
    """Check what the factory `name` returned; raises `UserError` for what is missing or unknown."""
    if not isinstance(made, Mapping):
        raise UserError(f"{name} returned {type(made).__name__}, not a dict with model, batch and step (see docs/preflight.md)")
    missing = [key for key in ("model", "batch", "step") if key not in made]
    unknown = [key for key in made if key not in ("model", "batch", "step", *OPTIONAL)]
    if missing or unknown:
        wrong = f"{', '.join(missing)} missing" if missing else f"{', '.join(map(str, unknown))} not known"
        raise UserError(f"what {name} returned: {wrong} (needs model, batch, step; may have {', '.join(OPTIONAL)})")
    for key in ("model", "step", "optimizer"):
        if made.get(key) is not None and not callable(made[key]):
            raise UserError(f"{key} of {name} is {type(made[key]).__name__}, not a callable that makes it")
    batch = {str(key): entry(value, f"{key} in the batch of {name}") for key, value in dict(made["batch"]).items()}
    optional = {key: made[key] for key in OPTIONAL if made.get(key) is not None}
    if "layers" in optional:
        optional["layers"] = tuple(optional["layers"])
    if isinstance(optional.get("shard"), str) and optional["shard"] != "fsdp":
        raise UserError(f"shard of {name} is {optional['shard']!r}; it is \"fsdp\" or a callable")
    if "autocast" in optional:
        optional["autocast"] = dtype(optional["autocast"], f"autocast of {name}")
    return Step(model=made["model"], batch=batch, step=made["step"], **optional)


def entry(value: Any, what: str) -> Entry:
    try:
        shape, kind, *spec = value
        return Entry(tuple(int(extent) for extent in shape), dtype(kind, what), tuple(spec[0]) if spec else None)
    except (TypeError, ValueError):
        raise UserError(f"{what} is {value!r}, not (shape, dtype)") from None


def dtype(value: Any, what: str) -> torch.dtype:
    found = getattr(torch, value, None) if isinstance(value, str) else value
    if not isinstance(found, torch.dtype):
        raise UserError(f"{what}: {value!r} is not a dtype")
    return found
