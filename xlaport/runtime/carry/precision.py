"""Mixed precision: CUDA's float16 becomes bfloat16, as on a TPU, and needs no scaling of the loss."""

from __future__ import annotations

import torch
from torch.amp import autocast_mode, grad_scaler
from torch.optim import Optimizer

from xlaport.runtime.carry.carrier import Carrier

CUDA_ONLY = {"fused": None, "capturable": False}
"""Arguments of optimizers that need CUDA's kernels -> their value without."""


def install(carrier: Carrier) -> None:
    carry_autocast(carrier)
    carry_scaler(carrier)
    carry_optimizers(carrier)


def carry_autocast(carrier: Carrier) -> None:
    made = autocast_mode.autocast.__init__

    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda" or device_type == carrier.kind:
            if enabled:
                carrier.note("autocast (bfloat16)" if dtype in (None, torch.float16) else "autocast")
            device_type, dtype = carrier.kind, torch.bfloat16 if dtype in (None, torch.float16) else dtype
        made(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    autocast_mode.autocast.__init__ = init
    carry_autocast_state(carrier)
    carry_custom_functions(carrier)


def carry_autocast_state(carrier: Carrier) -> None:
    """What `torch` says of autocast, by the type of a device."""
    is_enabled, get_dtype, set_enabled, set_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype, torch.set_autocast_enabled, torch.set_autocast_dtype

    def narrowed(device_type: str, dtype: torch.dtype) -> torch.dtype:
        return torch.bfloat16 if device_type == "cuda" and dtype == torch.float16 else dtype

    def switch(*arguments):
        *device_type, enabled = arguments
        return set_enabled(carrier.type_for(device_type[0]) if device_type else carrier.kind, enabled)

    torch.is_autocast_enabled = lambda device_type="cuda": is_enabled(carrier.type_for(device_type))
    torch.get_autocast_dtype = lambda device_type: get_dtype(carrier.type_for(device_type))
    torch.set_autocast_enabled = switch
    torch.set_autocast_dtype = lambda device_type, dtype: set_dtype(carrier.type_for(device_type), narrowed(device_type, dtype))
    torch.get_autocast_gpu_dtype = lambda: get_dtype(carrier.kind)
    torch.set_autocast_gpu_dtype = lambda dtype: set_dtype(carrier.kind, narrowed("cuda", dtype))


def carry_custom_functions(carrier: Carrier) -> None:
    """`custom_fwd` casts tensors of the device it is told; `torch.cuda.amp` has its own names for CUDA's."""
    forward, backward = autocast_mode.custom_fwd, autocast_mode.custom_bwd

    def custom_fwd(fwd=None, *, device_type="cuda", cast_inputs=None):
        return forward(fwd, device_type=carrier.type_for(device_type), cast_inputs=torch.bfloat16 if cast_inputs == torch.float16 else cast_inputs)

    def custom_bwd(bwd=None, *, device_type="cuda"):
        return backward(bwd, device_type=carrier.type_for(device_type))

    for module in (autocast_mode, torch.amp, torch.cuda.amp, torch.cuda.amp.autocast_mode):
        module.custom_fwd, module.custom_bwd = custom_fwd, custom_bwd


SCALER = {"init_scale": 2.0**16, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
"""A scaler's arguments and their defaults, in order; it answers for them, and does nothing."""


def carry_scaler(carrier: Carrier) -> None:
    scaler = grad_scaler.GradScaler
    made = scaler.__init__

    def init(self, device="cuda", *arguments, enabled=True, **keywords):
        given = {**SCALER, **dict(zip(SCALER, arguments)), **keywords}
        if len(arguments) > len(SCALER):
            enabled = arguments[len(SCALER)]
        if enabled:
            carrier.leave_out("GradScaler (bfloat16 needs none)")
        made(self, carrier.kind, **given, enabled=False)
        for name in SCALER:
            setattr(self, f"_{name}", given[name])

    def state_dict(self):
        return {"scale": 1.0, **{name: getattr(self, f"_{name}") for name in list(SCALER)[1:]}, "_growth_tracker": 0}

    scaler.__init__, scaler.state_dict = init, state_dict


def carry_optimizers(carrier: Carrier) -> None:
    """`fused=True` and `capturable=True` are stored in an optimizer's defaults by its own `__init__`, or given with a group."""
    made, add = Optimizer.__init__, Optimizer.add_param_group

    def without(options: dict) -> dict:
        given = [name for name in CUDA_ONLY if options.get(name)]
        for name in given:
            carrier.note(f"optimizer's {name}=")
        return {**options, **{name: CUDA_ONLY[name] for name in given}} if given else options

    def init(self, params, defaults):
        made(self, params, without(defaults))

    def add_param_group(self, param_group):
        return add(self, without(param_group) if isinstance(param_group, dict) else param_group)

    Optimizer.__init__, Optimizer.add_param_group = init, add_param_group
