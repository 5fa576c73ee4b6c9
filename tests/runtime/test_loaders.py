"""Loaders of compared runs: what torch_xla's threads and Accelerate would draw at other moments is drawn at the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_verify import ORIGINAL, ROOT, ported, verified

AUGMENTED = """
class Augmented(TensorDataset):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + torch.randn(8), y


def main():"""


@pytest.fixture(scope="module")
def augmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose data set draws from the generator that its dropout draws from on the host."""
    text = ORIGINAL.read_text(encoding="utf-8").replace("\ndef main():", AUGMENTED).replace("data = TensorDataset(", "data = Augmented(")
    file = tmp_path_factory.mktemp("augmented") / "train.py"
    file.write_text(text, encoding="utf-8")
    return file


def rewritten(file: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    folder.mkdir()
    (folder / "train.py").write_text(text, encoding="utf-8")
    return folder / "train.py"


def test_a_device_loader_draws_when_a_batch_is_asked_for(augmented: Path, tmp_path: Path):
    loaded = ("in loader:", "in MpDeviceLoader(loader, device):")
    imported = ("\nimport torch\n", "\nimport torch\nfrom torch_xla.distributed.parallel_loader import MpDeviceLoader\n")
    (tmp_path / "ported").mkdir()
    port = rewritten(ported(augmented, tmp_path / "ported"), tmp_path / "loaded", loaded, imported)
    found = verified(port, "--steps", "6", original=augmented)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]


def test_accelerate_shuffles_as_it_does_on_xla(augmented: Path, tmp_path: Path):
    pytest.importorskip("accelerate")
    program = rewritten(
        augmented,
        tmp_path / "accelerated",
        ("\nimport torch\n", "\nimport torch\nfrom accelerate import Accelerator\n"),
        ('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', "accelerator = Accelerator()\n    device = accelerator.device"),
        ("    for epoch in range(2):", "    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n    for epoch in range(2):"),
        ("loss.backward()", "accelerator.backward(loss)"),
    )
    (tmp_path / "ported").mkdir()
    found = verified(ported(program, tmp_path / "ported"), "--steps", "12", original=program)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]
    assert found["carried"]["the order of samples, as Accelerate draws it on XLA"] == 1


IN_TURN = """
import sys, threading, torch
from xlaport.runtime.inside import loaders
loaders.in_turn()
import torch_xla
from torch_xla.distributed.parallel_loader import MpDeviceLoader

def batches(fails=False):
    for number in range(5):
        print("read", number, threading.current_thread() is threading.main_thread())
        if fails and number == 2:
            raise ValueError("no such picture")
        yield {"x": torch.full((2,), float(number)), "name": "n"}

class Loader:
    def __init__(self, fails=False): self.fails = fails
    def __iter__(self): return batches(self.fails)
    def __len__(self): return 5

for _ in range(2):
    for batch in MpDeviceLoader(Loader(), torch_xla.device()):
        print("step", batch["x"].device.type, batch["x"].sum().item(), batch["name"])
try:
    list(MpDeviceLoader(Loader(fails=True), torch_xla.device()))
except ValueError as error:
    print("raised", error)
"""


def test_batches_are_read_in_turn_and_their_errors_raised():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1"}
    done = subprocess.run([sys.executable, "-c", IN_TURN], env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    epoch = [line for number in range(5) for line in (f"read {number} True", f"step xla {2.0 * number} n")]
    assert lines == [*epoch, *epoch, *(f"read {number} True" for number in range(3)), "raised no such picture"], done.stderr


NORMS = """
import torch
from xlaport.runtime.inside import tap
values = torch.full((12_000_000,), 1e-3)
print(tap.norms([values, None, torch.ones(4, dtype=torch.bfloat16)]).tolist())
for device in ("cpu", "meta"):
    print(tap.norm(torch.ones(4, dtype=torch.float64, device=device)).dtype)
"""


def test_norms_of_many_elements_are_as_exact_on_the_cpu_as_on_xla():
    done = subprocess.run([sys.executable, "-c", NORMS], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    printed, *types = done.stdout.splitlines()
    first, none, small = json.loads(printed)
    assert first == pytest.approx(12_000_000**0.5 * 1e-3, rel=1e-6) and (none, small) == (0.0, 2.0), done.stderr
    assert types == ["torch.float32"] * 2, done.stderr
