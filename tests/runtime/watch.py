"""Inside a watched process: what a training program did, written as JSON when the process ends.

`observe.py` starts processes this way. Nothing here adds work to a training step: losses stay on their device until the
end, and the first values of parameters are copied once, as outputs of the first graph. torch_xla is never imported
here, so that a port that forgot it gets no help.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.optim import optimizer as optimizers


@dataclass
class Watch:
    """What has been seen so far. `first` maps the id of a parameter to it and its value before the first step."""

    losses: list[torch.Tensor] = field(default_factory=list)
    scales: list[torch.Tensor | None] = field(default_factory=list)
    first: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    compilations: list[int] = field(default_factory=list)

    def backward(self, loss: torch.Tensor) -> None:
        if not self.losses:
            # Registered after the import of torch_xla, so run before the handler that shuts its runtime down.
            atexit.register(self.write)
        self.losses.append(loss.detach().clone())
        self.scales.append(getattr(loss, "_xlaport_scale", None))

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self.first:
                    self.first[id(parameter)] = (parameter, parameter.detach().clone())

    def after_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Count the step; compilations are noted with the steps of the first optimizer."""
        self.steps[id(optimizer)] = self.steps.get(id(optimizer), 0) + 1
        if next(iter(self.steps)) == id(optimizer):
            self.compilations.append(metric("CompileTime"))

    def write(self) -> None:
        settle()
        # Counters first: reading the losses below adds to them.
        result = {
            "imported_torch_xla": "torch_xla" in sys.modules,
            "steps": max(self.steps.values(), default=0),
            "compilations": self.compilations,
            "executions": metric("ExecuteTime") + metric("ExecuteReplicatedTime"),  # the latter in SPMD
            "fallbacks": fallbacks(),
            "loss_devices": sorted({loss.device.type for loss in self.losses}),
            "parameter_devices": sorted({parameter.device.type for parameter, _ in self.first.values()}),
            "parameters": len(self.first),
            "changed": sum(changed(parameter, value) for parameter, value in self.first.values()),
            "losses": [unscaled(loss, scale) for loss, scale in zip(self.losses, self.scales)],
        }
        target = Path(os.environ["XLAPORT_WATCH"]) / f"{os.getpid()}.json"
        target.write_text(json.dumps(result), encoding="utf-8")


def changed(parameter: torch.Tensor, before: torch.Tensor) -> bool:
    return not torch.equal(own_part(parameter).detach().cpu(), own_part(before).cpu())


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Of a DTensor what this process holds: comparing two would ask process groups that have ended."""
    return getattr(tensor, "_local_tensor", tensor)


def unscaled(loss: torch.Tensor, scale: torch.Tensor | None) -> float:
    return float(loss.cpu()) / (1.0 if scale is None else float(scale.cpu()))


def metrics():
    """torch_xla's own metrics, if the program imported torch_xla."""
    if "torch_xla" not in sys.modules:
        return None
    import torch_xla.debug.metrics

    return torch_xla.debug.metrics


def metric(name: str) -> int:
    """How many samples a metric has."""
    found = metrics() and metrics().metric_data(name)
    return found[0] if found else 0


def fallbacks() -> dict[str, int]:
    """Operations that ran on the host, and how often."""
    if not metrics():
        return {}
    names = [name for name in metrics().counter_names() if name.startswith("aten::")]
    return {name: metrics().counter_value(name) for name in names}


def settle() -> None:
    """Wait for executions under way, without launching what the program itself left pending."""
    if "torch_xla" in sys.modules:
        sys.modules["torch_xla"].core.xla_model.wait_device_ops()


def install() -> None:
    """Start watching this process; with XLAPORT_CPU_SHIM, replace CUDA by the CPU first."""
    if "XLAPORT_CPU_SHIM" in os.environ:
        import cpu_shim

        cpu_shim.install()
    watch = Watch()
    backward, scale = torch.autograd.backward, torch.amp.GradScaler.scale

    # Not Tensor.backward: under a function mode (torch.set_default_device, the shim) it calls itself once more.
    def watched_backward(tensors, *args, **kwargs):
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            watch.backward(tensors)
        return backward(tensors, *args, **kwargs)

    def watched_scale(self, outputs):
        result = scale(self, outputs)
        if isinstance(result, torch.Tensor) and self.is_enabled():
            result._xlaport_scale = self._scale.detach().clone()
        return result

    torch.autograd.backward, torch.amp.GradScaler.scale = watched_backward, watched_scale
    optimizers.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: watch.before_step(optimizer))
    optimizers.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: watch.after_step(optimizer))
