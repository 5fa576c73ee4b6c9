"""Mixed precision: CUDA's float16 becomes bfloat16, as on a TPU, and needs no scaling of the loss."""

from __future__ import annotations

import torch
from torch.amp import autocast_mode, grad_scaler
from torch.optim import Optimizer

from xlaport.runtime.carry.carrier import Carrier

CUDA_ONLY = ("fused", "capturable")
"""Arguments of optimizers that need CUDA's kernels."""


def install(carrier: Carrier) -> None:
    carry_autocast(carrier)
    carry_scaler(carrier)
    carry_optimizers(carrier)


def carry_autocast(carrier: Carrier) -> None:
    made, enabled, dtype_of = autocast_mode.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype

    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda" or device_type == carrier.kind:
            if enabled:
                carrier.note("autocast (bfloat16)" if dtype in (None, torch.float16) else "autocast")
            device_type, dtype = carrier.kind, torch.bfloat16 if dtype in (None, torch.float16) else dtype
        made(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    def is_enabled(device_type="cuda"):
        return enabled(carrier.kind if device_type == "cuda" else device_type)

    def get_dtype(device_type):
        return dtype_of(carrier.kind if device_type == "cuda" else device_type)

    autocast_mode.autocast.__init__ = init
    torch.is_autocast_enabled, torch.get_autocast_dtype = is_enabled, get_dtype
    torch.get_autocast_gpu_dtype = lambda: get_dtype("cuda")


def carry_scaler(carrier: Carrier) -> None:
    made = grad_scaler.GradScaler.__init__

    def init(self, device="cuda", *arguments, enabled=True, **keywords):
        if enabled:
            carrier.leave_out("GradScaler (bfloat16 needs none)")
        made(self, carrier.kind, *arguments, enabled=False, **keywords)

    grad_scaler.GradScaler.__init__ = init


def carry_optimizers(carrier: Carrier) -> None:
    """`fused=True` and `capturable=True` are stored in an optimizer's defaults by its own `__init__`."""
    made = Optimizer.__init__

    def init(self, params, defaults):
        for name in CUDA_ONLY:
            if defaults.get(name):
                carrier.note(f"optimizer's {name}=")
                defaults = {**defaults, name: False if name == "capturable" else None}
        made(self, params, defaults)

    Optimizer.__init__ = init
