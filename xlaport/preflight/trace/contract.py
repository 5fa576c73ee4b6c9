"""What a factory returns: a dict that says how a training step is made. The user's module imports nothing of xlaport.

    def preflight(batch_size=8):
        return {
            "model": lambda: GPT(config),                              # built on the meta device: no weights
            "optimizer": lambda parameters: torch.optim.AdamW(parameters),
            "batch": {"ids": ((batch_size, 1024), torch.int64)},       # the global batch under SPMD
            "step": lambda model, batch: model(batch["ids"]),          # returns the loss
        }

Optional: `autocast` (a dtype), `layers` (the class of the repeated blocks, or several), `shard` (`"fsdp"`, or a callable that annotates the
model), `keep_gradients` (True where the loop clears them only at its start), and a third element of a batch entry (its
partition spec). `optimizer` may be missing: then the step is a forward pass.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from xlaport.errors import UserError
from xlaport.preflight.trace import lines

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
    optional = {key: made[key] for key in OPTIONAL if made.get(key) is not None}
    if "layers" in optional:
        optional["layers"] = classes(optional["layers"], f"layers of {name}")
    if "autocast" in optional:
        optional["autocast"] = dtype(optional["autocast"], f"autocast of {name}")
    if "optimizer" in optional:
        optional["optimizer"] = checked(optional["optimizer"], f"optimizer of {name}", ("parameters",), refuse_optimizer)
    if optional.get("shard", "fsdp") != "fsdp":
        optional["shard"] = sharding(optional["shard"], f"shard of {name}")
    if isinstance(made["model"], torch.nn.Module):
        raise UserError(f"model of {name} is a {type(made['model']).__name__}; it must be a function that makes it, as it is made on the meta device")
    return Step(
        model=checked(made["model"], f"model of {name}", (), refuse_model),
        batch=entries(made["batch"], name),
        step=checked(made["step"], f"step of {name}", ("model", "batch")),
        **optional,
    )


# -- what it calls


def checked(function: Any, what: str, parameters: tuple[str, ...], refuse: Callable[[Any, str], None] = lambda *_: None) -> Callable[..., Any]:
    """The function, whose results are looked at. Raises `UserError` for what cannot be called with these parameters."""
    if not callable(function):
        raise UserError(f"{what} is {shown(function)}, not a callable with the parameters ({', '.join(parameters)})")
    refuse_parameters(function, what, parameters)

    @functools.wraps(function, updated=())
    def call(*arguments: Any) -> Any:
        with without_exit(what):
            made = function(*arguments)
        refuse(made, what)
        return made

    return call


@contextmanager
def without_exit(what: str) -> Iterator[None]:
    """`sys.exit` in the user's code is an error like others: it would end the process without an answer."""
    try:
        yield
    except SystemExit as error:
        at = lines.raised_at(error)
        raise UserError(f"{what} ended the program (SystemExit: {error.code}){' at ' + at if at else ''}") from None


def refuse_parameters(function: Callable[..., Any], what: str, parameters: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # of native code
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise UserError(f"{what} is called with ({', '.join(parameters)}): {error}") from None


def refuse_model(made: Any, what: str) -> None:
    if not isinstance(made, torch.nn.Module):
        raise UserError(f"{what} returned {shown(made)}, not a torch.nn.Module")


def refuse_optimizer(made: Any, what: str) -> None:
    """One of torch, or of optax on the torchax route."""
    if not hasattr(made, "step"):
        if not (hasattr(made, "init") and hasattr(made, "update")):
            raise UserError(f"{what} returned {shown(made)}, not an optimizer")
        return
    try:
        refuse_parameters(made.step, "", ())
    except UserError:
        raise UserError(f"{what} returned {type(made).__name__}, whose step needs a closure that runs the model again: preflight traces steps of one forward pass") from None


def refuse_sharded(made: Any, what: str) -> None:
    if made is not None:
        refuse_model(made, what)


def sharding(value: Any, what: str) -> Any:
    if value is False:
        return None
    if not callable(value):
        raise UserError(f'{what} is {shown(value)}; it is "fsdp" or a callable that gets the model')
    return checked(value, what, ("model",), refuse_sharded)


# -- what it holds


def classes(value: Any, what: str) -> tuple[type, ...]:
    """One class, or several."""
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    wrong = next((entry for entry in found if not isinstance(entry, type)), None)
    if wrong is not None:
        raise UserError(f"{what}: {shown(wrong)} is not a class; it is the class of the repeated blocks, or a tuple of classes")
    return found


def entries(batch: Any, name: str) -> dict[str, Entry]:
    if not isinstance(batch, Mapping):
        raise UserError(f"batch of {name} is {shown(batch)}, not a dict of (shape, dtype) by name")
    return {str(key): entry(value, f"{key} in the batch of {name}") for key, value in batch.items()}


def entry(value: Any, what: str) -> Entry:
    """(shape, dtype), or with a partition spec (shape, dtype, spec)."""
    try:
        (*shape,), kind, *spec = value
        extents, axes = tuple(map(int, shape)), tuple(spec[0]) if spec and spec[0] is not None else None
        is_shape = list(extents) == shape and min(extents, default=0) >= 0
    except (TypeError, ValueError, RuntimeError):
        is_shape = False
    if not is_shape or len(spec) > 1:
        raise UserError(f"{what} is {shown(value)}, not (shape, dtype) with a shape of whole numbers from 0 up")
    if axes is not None and len(axes) != len(extents):
        raise UserError(f"{what} has the shape {extents}, and its partition spec {axes} is not of as many dimensions")
    return Entry(extents, dtype(kind, what), axes)


def shown(value: Any) -> str:
    """Of a tensor or module its kind, which is short."""
    return type(value).__name__ if isinstance(value, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)) else reprlib.repr(value)


def dtype(value: Any, what: str) -> torch.dtype:
    found = getattr(torch, value, None) if isinstance(value, str) else value
    if not isinstance(found, torch.dtype):
        raise UserError(f"{what}: {value!r} is not a dtype")
    return found
