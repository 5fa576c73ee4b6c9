"""The torchax route: the step as one function that jax traces, by public interfaces of torchax, optax and jax alone.

The model is on meta and every array a shape, so nothing is allocated here either. The program is not the one that torch_xla
would run: report it to those who run torchax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import torch
import torchax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from torch import nn
from torchax import amp, interop
from torchax.tensor import OperatorNotFound

from xlaport.errors import UserError
from xlaport.preflight.step import Argument, Site, Variant
from xlaport.preflight.trace import lines, target, variants
from xlaport.preflight.trace.contract import Step
from xlaport.preflight.trace.writing import write

AXIS = "fsdp"
KINDS = ("parameter", "buffer", "optimizer", "batch", "seed")
"""Of the step's arguments, in its order."""


def trace(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The answer for a factory whose step torchax is to run."""
    variant = Variant(**request["variant"])
    devices = request["devices"]
    step = variants.applied(target.described(request, devices), variant)
    if devices == 1:
        step = replace(step, shard=None)
    if step.shard and not request["spmd"]:
        return {"status": "spmd"}
    if step.shard and step.shard != "fsdp":
        raise UserError('shard of the factory annotates tensors of torch_xla; on the torchax route it is "fsdp" or left out')
    with torch.device("meta"):
        model = variants.changed(step.model(), step, variant, interop.gradient_checkpoint)
    jitted = Jitted(step, model, AbstractMesh((devices,), (AXIS,)) if request["spmd"] else None)
    try:
        text = jitted.lowered()
    except OperatorNotFound as error:
        site = Site("unlowered", str(error).strip().splitlines()[0], lines.raised_at(error), 1)
        return {"status": "error", "error": "torchax stops at the first operation that it does not know", "sites": [vars(site)]}
    return {
        "status": "ok",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "trainable_bytes": sum(parameter.numel() * parameter.element_size() for parameter in model.parameters() if parameter.requires_grad),
        "outputs": 1 + jitted.donated,
        "sites": [],
        "layers": variants.count_layers(model, step),
        "notes": ["the program of torchax, not of torch_xla: its memory and time differ"],
        "spmd": request["spmd"],
        "drop_returned_arguments": False,
        "annotated": True,
        "torch_xla": "",  # it may be installed there, and has no part in this
        **write(folder, text.encode(), jitted.table()),
    }


class Loss(nn.Module):
    """The step as a module, so that `functional_call` finds the model's parameters in it."""

    def __init__(self, step: Step, model: nn.Module) -> None:
        super().__init__()
        self.step, self.model = step, model

    def forward(self, batch: Mapping[str, Any]) -> Any:
        return self.step.step(self.model, batch)


@dataclass
class Jitted:
    """A step, its model on meta, and the mesh it is sharded over, if it is."""

    step: Step
    model: nn.Module
    mesh: AbstractMesh | None

    def __post_init__(self) -> None:
        self.environment = torchax.default_env()
        self.loss = Loss(self.step, self.model)
        named = dict(self.loss.named_parameters())
        held = {**{name: value for name, value in named.items() if not value.requires_grad}, **dict(self.loss.named_buffers())}
        parameters = {name: self.array(value.shape, value.dtype) for name, value in named.items() if value.requires_grad}
        buffers = {name: self.array(value.shape, value.dtype, sharded=name in named) for name, value in held.items()}
        batch = {name: self.rows(entry.shape, entry.dtype) for name, entry in self.step.batch.items()}
        self.optimizer = functional(self.step, list(named.values()))
        state = self.state_like(parameters)
        self.arguments = (parameters, buffers, state, batch, jax.eval_shape(lambda: jax.random.PRNGKey(0)))

    @property
    def donated(self) -> int:
        """Arguments that a result replaces: all but the batch and the seed."""
        return len(jax.tree.leaves(self.arguments[:3]))

    def lowered(self) -> str:
        """StableHLO as text, with the user's lines."""
        replaced = jax.tree.map(lambda array: array.sharding, self.arguments[:3]) if self.mesh else None
        results = {"out_shardings": (NamedSharding(self.mesh, PartitionSpec()), *replaced)} if self.mesh else {}
        function = jax.jit(self.run, donate_argnums=(0, 1, 2), keep_unused=True, **results)
        return function.trace(*self.arguments).lower(lowering_platforms=("tpu",)).as_text(debug_info=True)

    def run(self, parameters: Any, buffers: Any, state: Any, batch: Any, seed: Any) -> Any:
        if self.optimizer is None:
            loss, buffers = self.of_batch(parameters, buffers, batch, seed)
            return loss, parameters, buffers, state
        (loss, buffers), gradients = jax.value_and_grad(self.of_batch, has_aux=True)(parameters, buffers, batch, seed)
        updates, state = self.optimizer.update(gradients, state, parameters)
        return loss, optax.apply_updates(parameters, updates), buffers, state

    def of_batch(self, parameters: Any, buffers: Any, batch: Any, seed: Any) -> Any:
        """The loss, and the buffers as the step leaves them."""
        context = amp.autocast("jax", self.step.autocast, self.environment) if self.step.autocast else self.environment.override_property()
        with self.environment, self.environment.override_property(prng=seed), context:
            held = dict(self.environment.j2t_iso(buffers))
            loss = torch.func.functional_call(self.loss, {**self.environment.j2t_iso(parameters), **held}, (self.environment.j2t_iso(batch),))
            if not isinstance(loss, torch.Tensor):
                raise UserError(f"step returned {type(loss).__name__}, not the loss")
            return self.environment.t2j_iso(loss), self.environment.t2j_iso(held)

    # -- shapes and where they are

    def array(self, shape: Any, dtype: torch.dtype, sharded: bool = True) -> jax.ShapeDtypeStruct:
        """Sharded along the first dimension that the devices divide, as torchax's own mesh does; whole without one."""
        axis = next((axis for axis, extent in enumerate(shape) if extent % self.devices == 0), None) if sharded else None
        return self.placed(tuple(shape), dtype, axis)

    def rows(self, shape: Any, dtype: torch.dtype) -> jax.ShapeDtypeStruct:
        if self.mesh and shape and shape[0] % self.devices:
            raise UserError(f"a batch of {shape[0]} rows cannot be divided over {self.devices} devices")
        return self.placed(tuple(shape), dtype, 0 if shape else None)

    @property
    def devices(self) -> int:
        return self.mesh.size if self.mesh else 1

    def placed(self, shape: tuple[int, ...], dtype: torch.dtype, axis: int | None) -> jax.ShapeDtypeStruct:
        spec = PartitionSpec(*(AXIS if number == axis else None for number in range(len(shape))))
        return jax.ShapeDtypeStruct(shape, interop.jax_view(dtype), sharding=NamedSharding(self.mesh, spec) if self.mesh else None)

    def state_like(self, parameters: dict[str, jax.ShapeDtypeStruct]) -> Any:
        """The optimizer's state; a moment is where its parameter is."""
        if self.optimizer is None:
            return ()
        whole = NamedSharding(self.mesh, PartitionSpec()) if self.mesh else None

        def like(path: Any, leaf: Any) -> jax.ShapeDtypeStruct:
            of = parameters.get(getattr(path[-1], "key", "")) if path else None
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=of.sharding if of is not None and of.shape == leaf.shape else whole)

        return jax.tree_util.tree_map_with_path(like, jax.eval_shape(self.optimizer.init, parameters))

    def table(self) -> list[Argument]:
        found = []
        for number, (kind, tree) in enumerate(zip(KINDS, self.arguments)):
            for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
                parts = self.devices if leaf.sharding is not None and any(leaf.sharding.spec) else 1
                size = prod(leaf.shape) * jnp.dtype(leaf.dtype).itemsize // parts
                name = ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path).removeprefix("model.")
                found.append(Argument(kind, name, tuple(leaf.shape), jnp.dtype(leaf.dtype).name, size, None, number < 3))
        return found


# -- optimizers

def functional(step: Step, parameters: list[nn.Parameter]) -> optax.GradientTransformation | None:
    """The factory's optimizer as a function of optax; an optimizer of torch by what it was given."""
    if step.optimizer is None:
        return None
    made = step.optimizer(parameters)
    if isinstance(made, optax.GradientTransformation):
        return made
    known = OPTIMIZERS.get(type(made))
    if known is None:
        names = ", ".join(kind.__name__ for kind in OPTIMIZERS)
        raise UserError(f"--route torchax knows torch's {names}; for {type(made).__name__} let the factory's optimizer return one of optax")
    return known(made.param_groups[0])


def adamw(group: Mapping[str, Any]) -> optax.GradientTransformation:
    return optax.adamw(group["lr"], *group["betas"], group["eps"], weight_decay=group["weight_decay"])


def adam(group: Mapping[str, Any]) -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(group["weight_decay"]), optax.adam(group["lr"], *group["betas"], group["eps"]))


def sgd(group: Mapping[str, Any]) -> optax.GradientTransformation:
    momentum = group["momentum"] or None
    return optax.chain(optax.add_decayed_weights(group["weight_decay"]), optax.sgd(group["lr"], momentum, group["nesterov"]))


OPTIMIZERS: dict[type, Callable[[Mapping[str, Any]], optax.GradientTransformation]] = {torch.optim.AdamW: adamw, torch.optim.Adam: adam, torch.optim.SGD: sgd}
