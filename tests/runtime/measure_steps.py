"""Runs steps before and after a fix, and prints what torch_xla's counters say of each: `python measure_steps.py FOLDER`.

`FOLDER/<name>.before.py` and `.after.py` define `setup(device)` and `step(i, state)`. The wanted numbers are those of the
step before the fix on the CPU.
"""

import importlib.util
import json
import sys
from pathlib import Path

import torch
import torch_xla

STEPS = 8
COUNTERS = torch_xla._XLAC


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counters() -> dict[str, int]:
    copied = COUNTERS._xla_metric_data("TransferFromDeviceTime")
    fallbacks = COUNTERS._get_executed_fallback_ops()
    return {
        "sync": copied[0] if copied else 0,
        "graphs": sum(COUNTERS._xla_counter_value(name) or 0 for name in ("UncachedCompile", "CachedCompile")),
        "recompile": COUNTERS._xla_counter_value("UncachedCompile") or 0,
        "fallback": sum(COUNTERS._xla_counter_value(name) for name in fallbacks if name != "aten::_local_scalar_dense"),
    }


def measured(module, device) -> tuple[list, dict[str, int]]:
    """Results of each step, and what the second half of them counted: within the step, and recompilations anywhere."""
    torch.manual_seed(0)
    state = module.setup(device)
    torch_xla.sync()
    results, seen = [], dict.fromkeys(("sync", "graphs", "recompile", "fallback"), 0)
    for i in range(STEPS):
        before = counters()
        result = module.step(i, state)
        inside = counters()
        torch_xla.sync()
        COUNTERS._xla_wait_device_ops([])
        after = counters()
        results.append(result)
        if i >= STEPS // 2:
            for name in ("sync", "graphs", "fallback"):
                seen[name] += inside[name] - before[name]
            seen["recompile"] += after["recompile"] - before["recompile"]
    return [as_tensor(result) for result in results], seen


def as_tensor(result) -> torch.Tensor:
    return result.detach().cpu() if isinstance(result, torch.Tensor) else torch.as_tensor(result)


def agree(first: list, second: list) -> bool:
    return all(a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in zip(first, second))


def on_cpu(module) -> list:
    torch.manual_seed(0)
    state = module.setup("cpu")
    return [as_tensor(module.step(i, state)) for i in range(STEPS)]


def main(folder: Path) -> None:
    found = {}
    for path in sorted(folder.glob("*.after.py")):
        name = path.name.removesuffix(".after.py")
        before, after = load(folder / f"{name}.before.py"), load(path)
        results, clean = measured(after, torch_xla.device())
        old_results, dirty = measured(before, torch_xla.device())
        wanted = on_cpu(before)
        found[name] = {"before": dirty, "after": clean, "equal": agree(results, wanted), "was_equal": agree(old_results, wanted)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
