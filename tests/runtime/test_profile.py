"""`xlaport profile` of programs that do each thing once, at a line that says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]

PORT = """
import threading
import torch, torch_xla
from torch import nn
import torch_xla.core.xla_model as xm

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        gradient.sum().item()  # read in backward
        return gradient * 2

def train():
    device = xm.xla_device()
    model = nn.Linear(4, 4).to(device)
    model.weight.register_hook(lambda g: print(float(g.norm())))  # read in a hook
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        x = torch.randn(8, 4).to(device)
        x = x ** (2 + 0.1 * step)  # another number
        loss = Doubled.apply(model(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        if step % 2:
            print(f"{loss:.3f}")  # formatted
        middle = loss.reshape(1).expand(3).median()  # on the host
        del middle

thread = threading.Thread(target=train)
thread.start()
thread.join()
"""

CUDA = """
import torch
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 4, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    loss.item()
"""


def profile(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(dedent(text).lstrip(), encoding="utf-8")
    command = [sys.executable, "-m", "xlaport", "profile", "train.py", *options]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def line_of(text: str, mark: str) -> int:
    return next(number for number, line in enumerate(text.lstrip().splitlines(), start=1) if mark in line)


def test_each_line_has_what_it_did(tmp_path: Path) -> None:
    result = profile(tmp_path, PORT, "--steps", "6", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["status"], len(found["steps"]), found["device"]) == ("steps", 6, "CPU")
    assert all(step["compiled"] >= 1 for step in found["steps"])
    lines = {line["line"]: line for line in found["lines"]}
    reads = {mark: lines[line_of(PORT, mark)]["late"]["reads"] for mark in ("# read in backward", "# read in a hook", "# formatted")}
    assert reads == {"# read in backward": 3, "# read in a hook": 3, "# formatted": 1}
    assert lines[line_of(PORT, "# on the host")]["late"]["fallbacks"] == {"aten::median": 3}
    assert lines[line_of(PORT, "# formatted")]["rules"] == ["XP501"]
    waiting = {number for number, line in lines.items() if line["total"]["reads"] or line["total"]["forced"] or line["total"]["fallbacks"]}
    assert waiting == {line_of(PORT, mark) for mark in (*reads, "# on the host")}
    causes = {cause["line"] for cause in found["causes"] if cause["steps"][-1] > found["warm_up"]}
    assert causes == {line_of(PORT, "# another number")}
    assert any(cause["text"].startswith("the number 2.") for cause in found["causes"])


def test_a_cuda_program_is_carried(tmp_path: Path) -> None:
    result = profile(tmp_path, CUDA)
    assert result.returncode == 0, result.stderr
    assert "train.py on CPU: 3 steps" in result.stdout
    assert f"train.py:{line_of(CUDA, 'loss.item()')}: 1 read [xlaport rule XP501]" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_program_that_fails_is_no_profile(tmp_path: Path) -> None:
    result = profile(tmp_path, "import torch\nraise ValueError('no data')\n", "--device", "as-is")
    assert (result.returncode, result.stdout) == (2, "")
    assert "line 2, in <module>" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("xlaport: train.py: ValueError: no data at ")


def test_a_program_that_is_not_on_xla_has_no_profile(tmp_path: Path) -> None:
    result = profile(tmp_path, "import torch\n", "--device", "as-is")
    assert result.returncode == 2
    assert "did not import torch_xla" in result.stderr
