"""What a checkpoint holds: tensors by name, and what is on the host."""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from xlaport.errors import UserError
from xlaport.runtime.fsdp.mesh import Mesh, Spec

MODEL, OPTIMIZER = "model.", "optimizer."


def described(tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """By name, as `complete.json` has them; `host`: the tensor is not on the device."""
    return {name: {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "host": value.device.type == "cpu"} for name, value in tensors.items()}


def model_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and the buffers of the state dict; a tied tensor has the first of its names."""
    persistent = set(model.state_dict(keep_vars=True))
    named = [*model.named_parameters(), *((name, buffer) for name, buffer in model.named_buffers() if name in persistent)]
    return {MODEL + name: value.detach() for name, value in named}


def tied_names(model: nn.Module) -> dict[str, str]:
    """Other names of tied parameters and buffers, with the name under which each is saved."""
    first: dict[int, str] = {}
    tied = {}
    for name, value in model.state_dict(keep_vars=True).items():
        canonical = first.setdefault(id(value), name)
        if canonical != name:
            tied[name] = canonical
    return tied


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """By the names of parameters, not by their numbers: `optimizer.blocks.0.weight.exp_avg`."""
    names = parameter_names(model, optimizer)
    return {
        f"{OPTIMIZER}{names[id(parameter)]}.{key}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def optimizer_values(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Settings of groups, and state that is not tensors."""
    names = parameter_names(model, optimizer)
    groups = [
        {**{key: on_host(value) for key, value in group.items() if key != "params"}, "params": [names[id(parameter)] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    state = {
        names[id(parameter)]: {key: value for key, value in state.items() if not isinstance(value, torch.Tensor)}
        for parameter, state in optimizer.state.items()
    }
    return {"groups": groups, "state": {name: values for name, values in state.items() if values}}


def on_host(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def parameter_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[int, str]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise UserError(f"the optimizer's group {index} has a parameter of shape {list(parameter.shape)} that {type(model).__name__} does not have")
    return names


def random_states() -> dict[str, Any]:
    """Of Python, numpy, torch on the host, and the device."""
    import numpy as np
    import torch_xla.core.xla_model as xm

    kind, keys, position, has_gauss, gauss = np.random.get_state()
    return {
        "python": random.getstate(), "numpy": (kind, torch.from_numpy(keys.astype("int64")), position, has_gauss, gauss),
        "torch": torch.get_rng_state(), "device": xm.get_rng_state(),
    }


def set_random_states(states: Mapping[str, Any]) -> None:
    import numpy as np
    import torch_xla.core.xla_model as xm

    random.setstate(states["python"])
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype("uint32"), *rest))
    torch.set_rng_state(states["torch"])
    xm.set_rng_state(states["device"])


def packed(values: Mapping[str, Any]) -> bytes:
    """As torch.load reads it without running code: what it would refuse is refused now."""
    stream = io.BytesIO()
    torch.save(values, stream)
    try:
        torch.load(io.BytesIO(stream.getvalue()), weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(f"save: extra holds what torch.load does not read back ({first_line(error)}); save plain values, or a state_dict") from None
    return stream.getvalue()


def first_line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if "Unsupported" in line or "GLOBAL" in line), str(error).splitlines()[0])
    return text[:160]


def spec_for(name: str, shape: tuple[int, ...], specs: Mapping[str, tuple[tuple[int, ...], Spec]]) -> Spec:
    """Where the parts of a tensor of the optimizer are: as its parameter's, if it has its shape."""
    parameter = name.removeprefix(OPTIMIZER).rpartition(".")[0]
    own_shape, spec = specs.get(parameter, ((), ()))
    return spec if own_shape == shape else (None,) * len(shape)


def empty_tensors(described: Mapping[str, Mapping[str, Any]], specs: Mapping[str, tuple[tuple[int, ...], Spec]], mesh: Mesh) -> dict[str, torch.Tensor]:
    """Tensors of an optimizer's state to read into, where they belong."""
    made = {}
    for name, about in described.items():
        shape, dtype = tuple(about["shape"]), getattr(torch, about["dtype"])
        value = torch.zeros(shape, dtype=dtype, device="cpu" if about["host"] else "xla")
        if not about["host"]:
            mesh.mark(value, spec_for(name, shape, specs))
        made[name] = value
    return made
