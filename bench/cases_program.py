"""A program of labelled cases, each in a process forked for it, as `bench/profile_truth.py` runs it under watch.

    python bench/cases_program.py OUT CASE...

A case is a module with `setup(device)` and `step(i, state)`; ITERS of its steps are run (10 where it names none). For
each case OUT/<name>.json takes its process (`pid`), what the step itself and the end of the graph counted (`inside`,
`after`: lists by step), and its error, if any.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import sys
import traceback
from pathlib import Path

import torch
import torch_xla

STEPS = 10
COUNTERS = ("UncachedCompile", "CachedCompile", "MarkStep")


def totals() -> dict[str, int]:
    binding = torch_xla._XLAC
    binding._xla_wait_device_ops([])
    read = binding._xla_metric_data("TransferFromDeviceTime")
    found = {name: binding._xla_counter_value(name) or 0 for name in (*COUNTERS, *binding._get_executed_fallback_ops())}
    return {**found, "reads": read[0] if read else 0}


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(path: Path) -> dict:
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    module = load(path)
    device = torch_xla.device()
    torch_xla.manual_seed(0)
    state = module.setup(device)
    torch_xla.sync()
    inside, after = [], []
    for index in range(getattr(module, "ITERS", STEPS)):
        began = totals()
        with contextlib.redirect_stdout(io.StringIO()):
            kept = module.step(index, state)  # noqa: F841  an output nobody holds would not be computed
        ended = totals()
        torch_xla.sync()
        inside.append(grown(began, ended))
        after.append(grown(ended, totals()))
    return {"inside": inside, "after": after}


def main(out: Path, cases: list[Path]) -> None:
    for path in cases:
        child = os.fork()
        if child == 0:
            try:
                result = run(path)
            except Exception:
                result = {"error": traceback.format_exc()[-1500:]}
            (out / f"{path.stem}.json").write_text(json.dumps({"pid": os.getpid(), **result}), encoding="utf-8")
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
