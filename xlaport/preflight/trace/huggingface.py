"""A model of the transformers library by its configuration, without weights: `--hf config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from xlaport.errors import UserError
from xlaport.preflight.trace.contract import Entry, Step


def step(asked: Mapping[str, Any], devices: int) -> Step:
    """A causal language model that trains with AdamW on sequences of ids. `asked`: config, batch, length, dtype, fsdp."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError:
        raise UserError("--hf needs the package transformers beside torch_xla: pip install transformers") from None
    configuration = read(Path(asked["config"]), AutoConfig)
    length = asked["length"] or min(getattr(configuration, "max_position_embeddings", 1024) or 1024, 2048)
    shape = asked["batch"], length
    dtype = getattr(torch, asked["dtype"])

    def build() -> torch.nn.Module:
        model = AutoModelForCausalLM.from_config(configuration, attn_implementation="sdpa")
        model.config.use_cache = False
        return model.to(dtype)

    return Step(
        model=build,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        batch={"input_ids": Entry(shape, torch.int64), "labels": Entry(shape, torch.int64)},
        step=lambda model, batch: model(input_ids=batch["input_ids"], labels=batch["labels"]).loss,
        shard="fsdp" if asked["fsdp"] else None,
    )


def read(file: Path, library: Any) -> Any:
    """The configuration in a file, or in the folder of a checkpoint. Raises `UserError` for what transformers does not know."""
    file = file / "config.json" if file.is_dir() else file
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return library.for_model(document.pop("model_type"), **document)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from None
    except KeyError:
        raise UserError(f"{file}: has no model_type") from None
    except ValueError as error:
        raise UserError(f"{file}: {str(error).splitlines()[0]}") from None
