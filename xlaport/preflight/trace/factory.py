"""The route without memory: a model on meta, placeholders for all its data, two steps traced and none run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import torch
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch import nn
from torch.utils._pytree import tree_leaves

from xlaport.errors import UserError
from xlaport.preflight.step import TRAIL, Variant
from xlaport.preflight.trace import lazy, program, sharding, target, variants
from xlaport.preflight.trace.contract import Step
from xlaport.preflight.trace.guard import Found, Guard, report_printing
from xlaport.preflight.trace.program import Named
from xlaport.preflight.trace.writing import write
from xlaport.runtime.fsdp import wrapping
from xlaport.runtime.fsdp.wrapping import Wrapped

ASSUMED = "values that the step reads were taken as 1 while tracing, and shapes that depend on data as the largest they can be"


def trace(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The answer for a factory, or for a Hugging Face configuration."""
    devices = request["devices"]
    if request["spmd"]:
        sharding.pretend(devices)
    elif devices > 1:
        xr.global_runtime_device_count = lambda: devices
        sharding.refuse_spmd()
    wrapping.without_values = to_placeholders
    try:
        return answer(request, folder, devices)
    except sharding.AsksForSpmd:
        return {"status": "spmd"}  # asked again, with SPMD on before anything of the user's is imported


def answer(request: Mapping[str, Any], folder: Path, devices: int) -> dict[str, Any]:
    variant = Variant(**request["variant"])
    made = target.described(request, devices)
    step = variants.applied(made, variant)
    if devices == 1:
        step = replace(step, shard=None)  # one device holds all
    if step.shard and not request["spmd"]:
        raise sharding.AsksForSpmd
    found = Found()
    traced = Traced(step, variant, devices if request["spmd"] else 1)
    torch.autograd.set_detect_anomaly(True, check_nan=False)  # keeps the forward line of each backward operation
    lazy.forbid_execution()
    report_printing(lambda operator: found.add("reads", operator))
    try:
        with Guard(found, folder / TRAIL) as guard:
            traced.run()
            traced.renew()
            guard.clear()
            loss = traced.run()
    except UserError as error:
        return {"status": "error", "error": str(error), "sites": found.as_json()}
    outputs = traced.outputs(loss)
    table = program.arguments(outputs, traced.names(outputs))
    return {
        "status": "ok",
        "parameters": sum(parameter.numel() for parameter in traced.model.parameters()),
        "trainable_bytes": sum(parameter.numel() * parameter.element_size() for parameter in traced.model.parameters() if parameter.requires_grad),
        "outputs": len(outputs),
        "sites": found.as_json(),
        "layers": traced.layer_count,
        "notes": [ASSUMED] if found.reads or found.dynamic else [],
        "spmd": request["spmd"],
        "drop_returned_arguments": False,
        **write(folder, lazy.bytecode(outputs), table),
    }


class Traced:
    """A model, its optimizer and a batch, all of placeholders, and the step over them."""

    def __init__(self, step: Step, variant: Variant, devices: int) -> None:
        self.step = step
        with torch.device("meta"):
            model = variants.changed(step.model(), step, variant)
        self.layer_count = variants.count_layers(model, step)
        to_placeholders(model)
        self.model = sharded(model, step, devices) if step.shard else model
        self.batch = {name: sharding.markable(lazy.placeholder(entry.shape, entry.dtype)) for name, entry in step.batch.items()}
        if step.shard or wrapping.wrapped(self.model):
            shard_batch(self.batch, step, devices, wrapping.wrapped(self.model))
        self.optimizer = step.optimizer(self.model.parameters()) if step.optimizer else None

    def run(self) -> torch.Tensor:
        context = torch.autocast("xla", dtype=self.step.autocast) if self.step.autocast else contextlib.nullcontext()
        if self.optimizer is None:
            with torch.no_grad(), context:
                return self.step.step(self.model, self.batch)
        with context:
            loss = self.step.step(self.model, self.batch)
        if not isinstance(loss, torch.Tensor):
            raise UserError(f"step returned {type(loss).__name__}, not the loss")
        loss.backward()
        self.optimizer.step()
        if not self.step.keep_gradients:
            self.optimizer.zero_grad(set_to_none=True)
        return loss

    def renew(self) -> None:
        """After the step that made the optimizer's state: all data becomes new arguments, as after a sync."""
        for parameter in self.model.parameters():
            parameter.data = lazy.placeholder(parameter.shape, parameter.dtype)
            parameter.grad = None
        for module in self.model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = lazy.placeholder(buffer.shape, buffer.dtype)
        for _, state, name, value in self.states():
            state[name] = lazy.placeholder(value.shape, value.dtype)

    def states(self) -> list[tuple[nn.Parameter, dict[str, Any], str, torch.Tensor]]:
        if self.optimizer is None:
            return []
        return [
            (parameter, state, name, value)
            for parameter, state in self.optimizer.state.items() for name, value in state.items()
            if isinstance(value, torch.Tensor) and value.device.type == "xla"
        ]

    def outputs(self, loss: Any) -> list[torch.Tensor]:
        """What a sync at the end of the step would return: what it computed, not what it left alone."""
        parameters = list(self.model.parameters())
        results = [value for value in tree_leaves(loss) if isinstance(value, torch.Tensor)]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        return lazy.pending([*results, *parameters, *self.model.buffers(), *(value for *_, value in self.states()), *gradients])

    def names(self, outputs: list[torch.Tensor]) -> dict[int, Named]:
        """What each argument is, by its number. A state is sharded as its parameter."""
        found: dict[int, Named] = {}
        for name, tensor in self.batch.items():
            found[lazy.tensor_id(tensor)] = Named("batch", name, sharding.spec_of(tensor))
        for name, buffer in self.model.named_buffers():
            found[lazy.alias_id(buffer)] = Named("buffer", plain(name))
        names = {}
        for name, parameter in self.model.named_parameters():
            names[parameter] = plain(name)
            found[lazy.alias_id(parameter)] = Named("parameter", plain(name), sharding.spec_of(parameter))
        for parameter, _, key, value in self.states():
            spec = sharding.spec_of(parameter) if value.shape == parameter.shape else None
            found[lazy.alias_id(value)] = Named("optimizer", f"{names.get(parameter, '?')}.{key}", spec)
        return found


def plain(name: str) -> str:
    """A parameter's name without what FSDP's wrapper puts into it."""
    return name.replace("_orig_module.", "")


def to_placeholders(model: nn.Module) -> None:
    """Give every parameter and buffer on meta a placeholder; tied ones stay tied."""
    made: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for owned, wrap in ((module._parameters, True), (module._buffers, False)):
            for name, tensor in owned.items():
                if tensor is not None and tensor.device.type == "meta":
                    if id(tensor) not in made:
                        made[id(tensor)] = stand_in(tensor, wrap)
                    owned[name] = made[id(tensor)]


def stand_in(tensor: torch.Tensor, is_parameter: bool) -> torch.Tensor:
    made = lazy.placeholder(tensor.shape, tensor.dtype)
    return sharding.markable(nn.Parameter(made, requires_grad=tensor.requires_grad) if is_parameter else made)


# -- SPMD


def sharded(model: nn.Module, step: Step, devices: int) -> nn.Module:
    if step.shard != "fsdp":
        made = step.shard(model)
        return model if made is None else made
    return fully_sharded(model, variants.layer_classes(model, step), devices)


def fully_sharded(model: nn.Module, layers: tuple[type, ...], devices: int) -> nn.Module:
    """torch_xla's FSDPv2 around the model and each layer, over all devices."""
    from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    mesh = xs.Mesh(numpy.arange(devices), (devices, 1), ("fsdp", "model"))
    xs.set_global_mesh(mesh)

    def shard_output(output: Any, mesh: xs.Mesh) -> None:
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2:
                xs.mark_sharding(tensor, mesh, ("fsdp", *[None] * (tensor.dim() - 1)))

    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=set(layers)) if layers else None
    return SpmdFullyShardedDataParallel(model, mesh=mesh, shard_output=shard_output, auto_wrap_policy=policy)


def shard_batch(batch: Mapping[str, torch.Tensor], step: Step, devices: int, wrap: Wrapped | None) -> None:
    """As the batch of a model that xlaport.runtime.fsdp wrapped; else along the first axis of the global mesh, or over all devices without one.

    What the factory says of a tensor goes first.
    """
    mesh = wrap.mesh.devices if wrap else xs.get_global_mesh() or xs.Mesh(numpy.arange(devices), (devices,), ("data",))
    for name, tensor in batch.items():
        if tensor.dim():
            usual = wrap.mesh.batch_spec(tensor.dim()) if wrap else (mesh.axis_names[0], *[None] * (tensor.dim() - 1))
            xs.mark_sharding(tensor, mesh, step.batch[name].spec or usual)
