"""In a child process: what the device says of itself, and one small program compiled and run. Started by `device`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

SIDE = 256
"""Rows of the product: its result, 256 in every place, is exact in bfloat16, too."""


def main(folder: Path) -> None:
    backend = json.loads((folder / "request.json").read_text(encoding="utf-8"))["backend"]
    try:
        answer = BACKENDS[backend]()
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is the answer
        answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def torch_xla() -> dict[str, Any]:
    import torch_xla
    import torch_xla.runtime as xr

    ran = product(torch_xla.device())
    return {"type": xr.device_type(), "count": xr.global_runtime_device_count(), "local": xr.addressable_runtime_device_count(), **ran}


def torch_tpu() -> dict[str, Any]:
    import torch

    ran = product(torch.device("tpu"))
    count = torch.accelerator.device_count()
    return {"type": "TPU", "count": count, "local": count, **ran}


def product(device: Any) -> dict[str, float]:
    """The mean of a product of ones, and the seconds it took to compile and run."""
    import torch

    started = time.monotonic()
    value = (torch.ones(SIDE, SIDE, device=device) @ torch.ones(SIDE, SIDE, device=device)).mean().item()
    return {"seconds": time.monotonic() - started, "value": value}


BACKENDS = {"torch_xla": torch_xla, "torch_tpu": torch_tpu}
