"""Identical layers as a loop and as `torch_xla.experimental.scan_layers.scan_layers`: what compiling and a step cost.

    python bench/scan_layers.py [--layers 12 24] [--update-results]

A GPT of 128 features, 128 tokens and 4 rows on XLA:CPU, each case in a process of its own. Processor time, not that of the
clock, so that other work on the machine does not count; compiling is the first two steps (XLA sees an optimizer that has no
state yet in the first) less what two later ones cost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "runtime")]

import results_doc  # noqa: E402

STEPS = 4
"""Measured ones, after the two that compile."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", nargs="+", type=int, default=[12, 24])
    parser.add_argument("--update-results", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(*json.loads(options.measure))))
        return
    rows = [row(layers) for layers in options.layers]
    body = "\n".join([
        "## Scan over identical layers", "",
        "`python bench/scan_layers.py`: a GPT (128 features) on XLA:CPU, processor seconds of compiling and of a step; `scan` is",
        "torch_xla's `scan_layers` with `is_layer_pure`, without which each step traces the layer again.", "",
        results_doc.table(("layers", "compile, loop", "compile, scan", "step, loop", "step, scan", "graphs, loop", "graphs, scan", "losses differ by"), rows),
    ])
    if options.update_results:
        results_doc.replace_section("scan-layers", body)
    print(body)


def row(layers: int) -> tuple[str, ...]:
    loop, scan = (child(layers, is_scanned) for is_scanned in (False, True))
    apart = max(abs(a - b) / abs(a) for a, b in zip(loop["losses"], scan["losses"]))
    print(layers, loop, scan, flush=True)
    return (
        str(layers), f"{loop['compile']:.1f} s", f"{scan['compile']:.1f} s", f"{loop['step']:.2f} s", f"{scan['step']:.2f} s",
        str(loop["graphs"]), str(scan["graphs"]), f"{apart:.0e}",
    )


def child(layers: int, is_scanned: bool) -> dict:
    env = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__, "--measure", json.dumps([layers, is_scanned])], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def measured(layers: int, is_scanned: bool) -> dict:
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met
    from families import GPT
    from torch_xla.experimental.scan_layers import scan_layers

    torch.manual_seed(0)
    model = GPT(dim=128, layers=layers, vocabulary=512, context=128).to("xla")
    if is_scanned:
        model.forward = lambda ids: model.head(model.norm(scan_layers(model.blocks, model.tokens(ids) + model.positions(torch.arange(ids.shape[1], device=ids.device)), is_layer_pure=True)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    ids = torch.randint(0, 512, (4, 129), generator=torch.Generator().manual_seed(1)).to("xla")
    spent, losses = [], []
    for _ in range(2 + STEPS):
        started = time.process_time()
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        xm.wait_device_ops()
        losses.append(loss.item())
        spent.append(time.process_time() - started)
    step = sum(spent[2:]) / STEPS
    return {"compile": sum(spent[:2]) - 2 * step, "step": step, "losses": losses, "graphs": met.metric_data("CompileTime")[0]}


if __name__ == "__main__":
    main()
