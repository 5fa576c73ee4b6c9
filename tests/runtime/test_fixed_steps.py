"""Each form of a fix for the step is executed before and after on XLA:CPU: equal numbers, and nothing left to count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport import engine
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.findings import Grade
from xlaport.source import SourceFile

HERE = Path(__file__).resolve().parent
CASES = HERE.parent / "lint_cases"
AREAS = ("XP3", "XP4", "XP5", "XP97")

HEAD = """
import torch
import torch.nn.functional as F
import torch_xla
from types import SimpleNamespace

def setup(device):
    return SimpleNamespace(
        xs=[((-1) ** i * torch.rand(8, 4) + 0.1 * torch.randn(8, 4)).to(device) for i in range(10)],
        ids=[torch.randint(0, 8, (8,)).to(device) for i in range(10)],
        squares=[(torch.eye(4) * 3 + torch.rand(4, 4)).to(device) for i in range(10)],
        w=torch.ones(4, device=device, requires_grad=True), best=torch.tensor(9.0, device=device), total=0.0, count=0, worst=0.0,
    )

def step(i, s):
    x = s.xs[i]
"""

FORMS = {
    "if-return": "if x.sum() > 0:\n    return x * 2\nreturn x - 1",
    "if-else-return": "if x.mean():\n    return x * 2\nelse:\n    return torch.relu(x)",
    "if-assign": "if not x.sum() > 0:\n    x = x * 2\nreturn x + 1",
    "if-else-assign": "if x.max() > 0.5 or x.min() < -0.5:\n    y = x.abs()\nelse:\n    y = x - 1\nreturn y * 3",
    "if-augmented": "total, flag = x.sum(), x[:, 0].sum() > 0\nif flag:\n    total += 1\n    x = x * 2\nelse:\n    total -= 1\nreturn total + x",
    "if-best": "loss = x.pow(2).mean()\nif loss < s.best:\n    s.best = loss\nreturn s.best",
    "if-item": "if x.sum().item() > 0:\n    x = x * 2\nreturn x",
    "if-is-nonzero": "if torch.is_nonzero(x.sum() > 0):\n    x = x * 2\nreturn x",
    "if-equal": "if torch.equal(x, x.abs()):\n    return x * 2\nreturn x - 1",
    "if-in-list": "t = s.ids[i][0]\nif t in (1, 2, 3):\n    return t * 2\nreturn t - 1",
    "if-not-in-tensor": "if 3 not in s.ids[i]:\n    return x * 2\nreturn x - 1",
    "if-gradient": "s.w.grad = None\ny = (x * s.w).sum()\nif y > 0:\n    y = y * 2\ny.backward()\nreturn s.w.grad * 1",
    "conditional": "y = x * 2 if x.sum() > 0 else x - 1\nreturn y",
    "conditional-numbers": "return x * (2.0 if x.sum() > 0 else 3.0)",
    "mask-number": "x = x.clone()\nx[x < 0] = 0\nreturn x",
    "mask-number-in-view": "x = x.clone()\ny = x[:, 0]\ny[y < 0] = 0.5\nreturn x",
    "mask-rows-number": "x = x.clone()\nrows = x[:, 0] < 0\nx[rows] = 7.0\nreturn x",
    "mask-scalar-tensor": "x = x * 1\nx[x < 0] = x.max()\nreturn x",
    "mask-isnan": "x = torch.sqrt(x)\nx[torch.isnan(x)] = 0.0\nreturn x",
    "mask-tensor": "x = x.clone()\ny = x * x\nm = x < 0\nx[m] = y[m]\nreturn x",
    "mask-rows-tensor": "x = x.clone()\nx[x[:, 0] < 0] = s.w.detach() * 2\nreturn x",
    "mask-add": "x = x.clone()\nx[x < 0] += 1.5\nx[x > 1] *= 2\nreturn x",
    "mask-add-tensor": "x = x.clone()\ny = x * 3\nx[x < 0] -= y[x < 0]\nreturn x",
    "mask-sum": "return x[x > 0].sum() + torch.sum(x[x < 0])",
    "mask-mean": "return x[x > -5].mean() + torch.mean(torch.masked_select(x, x < 5))",
    "mask-max": "y = x.float() - 0.5\nreturn y[~(y > 0)].max() + y.masked_select(y < 9).min()",
    "mask-gradient": "s.w.grad = None\ny = x * s.w\ny[y > 0].sum().backward()\nreturn s.w.grad * 1",
    "mask-count": "n = x[x > 0].numel() + len(x[x > 0]) + x[x > 0].shape[0]\nreturn x.sum() / (n + 1)",
    "nonzero-count": "n = torch.nonzero(x > 0).shape[0] + (x > 0).nonzero().size(0) + len(torch.argwhere(x))\nreturn x.sum() / (n + 1)",
    "nonzero-count-at-least": "n = torch.nonzero(x > 0).shape[0]\nreturn x.sum() / max(n, 1)",
    "bools": "return x[[True, False, True, False, True, False, True, False]] * 2",
    "sum-attribute": "loss = x.pow(2).mean()\ns.total += loss.item() * 3\nreturn s.total * 1",
    "sum-attribute-count": "s.count += int((x > 0).sum())\nreturn s.count * 1",
    "operand": "return x / (x.abs().max().item()) + float(x.sum()) * x",
    "operand-named": "scale = float(x.abs().max())\nreturn x / scale",
    "position-named": "k = int(x.sum(1).argmax())\nreturn x[k] * 2",
    "position-tensor": "return x[x.sum(1).argmax()] * 2",
    "builtins": "v = x.sum(1)\nreturn min(v) + max(v) + max(v.sum(), v.prod()) + min(v.sum(), 0.25)",
    "builtin-any": "hit = any(x.sum(1) > 0)\nreturn x * (2.0 if hit else 3.0)",
    "inverse": "m = s.squares[i]\nreturn torch.inverse(m) + torch.linalg.inv(m) + m.inverse()",
    "distribution": "d = torch.distributions.Normal(x, x.abs() + 1)\nreturn d.log_prob(x * 0.5).sum()",
    "position": "return x[i] * 2 + x[:, i // 2].sum()",
    "window": "return x[i // 2 : i // 2 + 3].sum(0)",
    "power": "y = x.abs()\ng = 1.5 + 0.17 * i\nreturn y ** g",
    "hypot": "return torch.hypot(x, x + 1) + x.hypot(x * 2)",
    "logaddexp": "return torch.logaddexp(x, x * 2)",
    "huber": "return F.huber_loss(x, x * 4, delta=0.5) + F.huber_loss(x, x * 3, reduction='sum', delta=2.0) + F.huber_loss(x, x + 5)",
    "nansum": "y = torch.sqrt(x)\nreturn torch.nansum(y) + y.nansum() + torch.nanmean(y) + y.nanmean(dim=1, keepdim=True) + torch.nanmean(y, dim=1)",
    "round-decimals": "return torch.round(x, decimals=2) + x.round(decimals=1)",
    "bucketize": "return torch.bucketize(x, torch.tensor([0.0, 0.5], device=x.device))",
    "isin": "return torch.isin(s.ids[i], torch.tensor([1, 3], device=x.device))",
    "addmm": "return torch.addmm(x, x, s.squares[i], beta=0.5, alpha=2.0) + torch.addmm(x, x, s.squares[i], alpha=0.1)",
    "copysign": "return torch.copysign(x.abs(), x + 0.1)",
    "signbit": "return torch.signbit(x)",
    "threshold": "v = 0.1 + 0.05 * i\nreturn F.threshold(x, v, 0.0)",
}
"""Bodies of a step: what is written of them before."""

LOOPS = {
    "sum": "total, seen = 0.0, 0\nfor k in range(3):\n    loss = (x * k).pow(2).mean()\n    total += loss.item() * 2\n    seen += (x > k).sum().item()\nreturn x * (total + seen)",
    "sum-read-in-some-rounds": "total = 0.0\nfor k in range(4):\n    total += float(x.mean()) / 2\n    if k % 2:\n        s.worst, total = max(s.worst, total), 0.0\nreturn x + s.worst",
}
"""A read is left after the loop, and in some of its rounds: fewer, and the same numbers."""


WRONG = {
    "amin": "return (x - x.amin()) / (torch.amax(x) - x.amin())",
    "no-dimensions": "return x.sum(()) + torch.mean(x, dim=[]) + x.std(()) + x.amax([])",
    "amin-gradient": "s.w.grad = None\n(x * s.w).amin().sum().backward()\nreturn s.w.grad * 1",
    "infinity-norm": 'return x.norm(float("inf")) + torch.norm(x, p=torch.inf, dim=1) + x.norm(float("-inf"), dim=1)',
    "elu-gradient": "s.w.grad = None\n(F.elu(x * s.w) + F.selu(x * s.w) + F.celu(x * s.w, 0.5)).sum().backward()\nreturn s.w.grad * 1",
    "elu-module": "s.w.grad = None\nbody = torch.nn.Sequential(torch.nn.LayerNorm(4, elementwise_affine=False), torch.nn.ELU())\n(body(x * s.w) * x).sum().backward()\nreturn s.w.grad * 1",
    "count-nonzero": "return torch.count_nonzero(x > 0) + (x > 0).count_nonzero(dim=1)",
    "complex-magnitude": "z = torch.view_as_complex(x.reshape(16, 2))\nreturn z.abs() + torch.abs(z)",
}
"""Wrong before, not slow."""


def fixed(text: str) -> str:
    root = Path("/step")
    path = root / "step.py"
    project = Project(root, {path: SourceFile.from_bytes(path, path.name, text.encode())})
    grades = frozenset({Grade.SAFE, Grade.UNSAFE})
    return engine.migrate(project, engine.Selection(Settings(select=AREAS), grades), lint=True)[path].after.text


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.splitlines())


PROGRAMS = {name: HEAD + indented(body) for name, body in {**FORMS, **LOOPS, **WRONG}.items()}
CORPUS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.py"))}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    """All programs with a fix, measured in one child process."""
    folder = tmp_path_factory.mktemp("steps")
    for name, text in {**PROGRAMS, **CORPUS}.items():
        after = fixed(text)
        if after != text:
            (folder / f"{name}.before.py").write_text(text, encoding="utf-8")
            (folder / f"{name}.after.py").write_text(after, encoding="utf-8")
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    run = subprocess.run([sys.executable, HERE / "measure_steps.py", folder], env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FORMS)
def test_form(results, name):
    seen = results[name]
    assert any(seen["before"].values()), "nothing was wrong before"
    assert seen["equal"]
    assert not any(seen["after"].values()), seen["after"]


@pytest.mark.parametrize("name", LOOPS)
def test_loop(results, name):
    seen = results[name]
    assert seen["equal"]
    assert seen["after"]["sync"] < seen["before"]["sync"]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_result(results, name):
    seen = results[name]
    assert not seen["was_equal"]
    assert seen["equal"]
    assert not any(seen["after"].values()), seen["after"]


def test_corpus(results):
    """What is fixed of the labelled corpus is equal, and no worse."""
    for name in CORPUS.keys() & results.keys():
        seen = results[name]
        assert seen["equal"] or 'COMPARE = "none"' in CORPUS[name], name
        assert all(count <= seen["before"][what] for what, count in seen["after"].items()), name
