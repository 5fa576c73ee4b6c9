"""The committed list of what lacks a kernel, against the package it was read from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "xlaport" / "data" / "op_kernels_torchtpu_0.2.json"
READER = ROOT / "tools" / "op_kernels" / "torchtpu.py"
ENTRIES = ["median", "nn_functional_huber_loss", "linalg_det", "nn_functional_interpolate_trilinear", "topk", "nn_functional_pixel_shuffle", "std_mean_unbiased", "HuberLoss", "Linear"]
"""A few of the 800: a composite that comes to a missing kernel, one that does not, functions and modules."""

NAMES = {
    "torch.median", "torch.Tensor.median", "torch.nn.functional.huber_loss", "torch.linalg.det", "torch.det", "torch.Tensor.det", "torch.std_mean", "torch.nn.HuberLoss",
}


def test_committed_list_is_the_packages(tpu_python):
    """All operators of the dispatcher, and a few calls made again."""
    done = subprocess.run([str(tpu_python), str(READER), *ENTRIES], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    read, committed = json.loads(done.stdout.splitlines()[-1]), json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert {how: set(names) for how, names in read["aten"].items()} == {how: set(names) for how, names in committed["aten"].items()}
    assert read["versions"]["torch-tpu"] == committed["torch_tpu"]
    assert NAMES <= read["apis"].keys()
    for name in NAMES:
        assert read["apis"][name] == committed["apis"][name], name
    assert not {"torch.topk", "torch.nn.functional.pixel_shuffle", "torch.nn.Linear"} & (read["apis"].keys() | committed["apis"].keys())


@pytest.mark.slow
def test_committed_file_is_what_the_tool_writes(tpu_python, tmp_path):
    """About four minutes of a processor."""
    out = tmp_path / "made.json"
    command = [sys.executable, str(ROOT / "tools" / "generate_op_kernels.py"), "torch-tpu==0.2.0", "--python", str(tpu_python), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600)
    assert out.read_text(encoding="utf-8") == COMMITTED.read_text(encoding="utf-8")
