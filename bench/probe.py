"""Runs inside a training script, as a `--shim` of the corpus's driver: what the driver itself does not watch.

Reads XLAPORT_PROBE, a JSON object: `out` (the file to write), `threads` (CPU threads of torch) and `perturb` (a seed,
or null: relative noise of 1e-7 on every parameter when its optimizer is made). Writes, when the driver exits:
`changed` and `parameters` (tensors that optimizers hold: how many differ from their first value, how many there are),
`scales` (the factor a GradScaler put on each recorded loss, 1 without one) and `random_ops` (XLA ops that drew random
numbers on the device, with calls) `executions` (graphs run) and `frames` (file and line of the failure, if it failed). Values stay on their device until the end, so nothing here adds an execution; the
copies of the first values are outputs of the first graph.
"""

import json
import os
import sys
import traceback

import torch

SETTINGS = json.loads(os.environ["XLAPORT_PROBE"])
NOISE = 1e-7
RANDOM = frozenset(
    "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial native_dropout normal normal_ poisson"
    " rand randint randn random_ randperm rrelu_with_noise rrelu_with_noise_ uniform_".split()
)
FIRST: list[tuple[torch.Tensor, torch.Tensor]] = []
FRAMES: list[tuple[str, int]] = []
SCALES: list[torch.Tensor | None] = []


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def watch_parameters() -> None:
    made = torch.optim.Optimizer.__init__
    generator = torch.Generator()
    generator.manual_seed(SETTINGS["perturb"] or 0)
    seen: set[int] = set()

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        for parameter in (p for group in self.param_groups for p in group["params"]):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            if SETTINGS["perturb"] is not None:
                perturb(parameter, generator)
            FIRST.append((parameter, local(parameter.detach()).clone()))

    torch.optim.Optimizer.__init__ = init


def perturb(parameter: torch.Tensor, generator: torch.Generator) -> None:
    values = local(parameter.detach())
    if values.is_floating_point():
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        values.copy_((values.double().cpu() * (1 + NOISE * noise)).to(values.dtype))


def watch_scales() -> None:
    scale, backward = torch.amp.GradScaler.scale, torch.Tensor.backward

    def scaled(self, outputs):
        result = scale(self, outputs)
        if isinstance(result, torch.Tensor) and self.is_enabled():
            result._probe_scale = self._scale.detach().clone()
        return result

    def counted(self, *args, **kwargs):
        if self.numel() == 1:
            SCALES.append(getattr(self, "_probe_scale", None))
        return backward(self, *args, **kwargs)

    torch.amp.GradScaler.scale, torch.Tensor.backward = scaled, counted


def random_ops() -> dict[str, int]:
    """Counted by torch_xla's own kernels, if the script itself imported it."""
    if "torch_xla" not in sys.modules:
        return {}
    import torch_xla.debug.metrics as metrics

    names = [name for name in metrics.counter_names() if name.startswith("xla::")]
    return {name: metrics.counter_value(name) for name in names if name.removeprefix("xla::") in RANDOM}


def executions() -> int:
    """Graphs run, of one device or partitioned over several (SPMD), which torch_xla times under another name."""
    if "torch_xla" not in sys.modules:
        return 0
    import torch_xla.debug.metrics as metrics

    timed = (metrics.metric_data(name) for name in ("ExecuteTime", "ExecuteReplicatedTime"))
    return sum(data[0] for data in timed if data)


def changed(parameter: torch.Tensor, first: torch.Tensor) -> bool:
    return not torch.equal(local(parameter.detach()).cpu(), first.cpu())


def watch_failures() -> None:
    """The driver keeps the end of a traceback only, and asks `traceback` for it: the frames are taken then."""
    shown = traceback.format_exc

    def format_exc(*args, **kwargs):
        FRAMES.extend((frame.filename, frame.lineno) for frame in traceback.extract_tb(sys.exc_info()[2]))
        return shown(*args, **kwargs)

    traceback.format_exc = format_exc


def report_at_exit() -> None:
    leave, owner = os._exit, os.getpid()

    def finish(code: int) -> None:
        if os.getpid() == owner and os.environ.get("RANK", "0") == "0":
            drawn, executed = random_ops(), executions()
            result = {
                "changed": sum(changed(parameter, first) for parameter, first in FIRST),
                "parameters": len(FIRST),
                "scales": [1.0 if scale is None else float(scale) for scale in SCALES],
                "random_ops": drawn,
                "executions": executed,
                "frames": FRAMES,
            }
            with open(SETTINGS["out"], "w", encoding="utf-8") as stream:
                json.dump(result, stream)
        leave(code)

    os._exit = finish


torch.set_num_threads(SETTINGS["threads"])
watch_parameters()
watch_scales()
watch_failures()
report_at_exit()
