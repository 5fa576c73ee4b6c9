"""Which fixes of the step are written, and which are not because something would be lost. `runtime/test_fixed_steps.py` executes them."""

from __future__ import annotations

import pytest
from support import MAIN, ROOT, project

from xlaport import engine
from xlaport.config import Settings
from xlaport.engine import Selection
from xlaport.findings import Grade

HEAD = """
import torch

class Net(torch.nn.Module):
    def forward(self, x, mask, rows, k):
"""


def fixed(body: str, *grades: Grade) -> str:
    text = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    selection = Selection(Settings(select=("XP3", "XP4", "XP5")), frozenset(grades or {Grade.SAFE, Grade.UNSAFE}))
    after = engine.migrate(project(text), selection, lint=True)[ROOT / MAIN].after.text
    return "\n".join(line[8:] for line in after[len(HEAD):].splitlines())


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:\n    print('big')\nreturn x",
        "if x.sum() > 0:\n    x.add_(1)\nreturn x",
        "if x.sum() > 0:\n    x = self.layer(x)\nreturn x",
        "if x.sum() > 0:\n    x = torch.rand_like(x)\nreturn x",
        "if x.sum() > 0:\n    x = x + 1\n    x = x * 2\nreturn x",
        "if x.sum() > 0:\n    x = x + 1\n    y = x * 2\nelse:\n    y = x\nreturn y",
        "if x.sum() > 0:\n    y = x * 2\nreturn x",
        "if x.sum() > 0:\n    return None\nreturn x",
        "if x.sum() > 0:\n    return x, 1\nreturn x, 2",
        "if x.sum() > 0 and self.training:\n    x = x * 2\nreturn x",
        "if self.training:\n    x = x + 1\nelif x.sum() > 0:\n    x = x * 2\nreturn x",
        "while x.sum() > 0:\n    x = x * 2\nreturn x",
        "return 'big' if x.sum() > 0 else 'small'",
        "n = x.sum()\nreturn x / n if n > 0 else x",
        "n = x.sum()\nif n != 0:\n    x = x + n.log()\nreturn x",
        "return f'{1 if x.sum() > 0 else 2}'",
        "x[rows > 0] = 0\nreturn x",
        "x[rows > 0, 1] = 0\nreturn x",
        "x[x > 0] = mask\nreturn x",
        "x[x > 0] = mask[mask > 0]\nreturn x",
        "self.layer(x)[self.layer(x) > 0] += 1\nreturn x",
        "return x[x > 0].sum(dim=0)",
        "return x[x > 0].max()",
        "return x[x > 0].sort()",
        "return torch.nonzero(x).numel()",
        "return x[[True, k]]",
        "total = 0.0\ntotal += x.sum().item()\nreturn total",
        "total = 0.0\nfor k in range(3):\n    total += x.sum().item()\n    print(total)\nreturn total",
        "total = 0.0\nfor k in range(3):\n    total += abs(x.sum().item())\nreturn total",
        "total = 0\nfor k in range(3):\n    total += int(x.mean().float())\nreturn total",
        "return max(k, 1)",
        "if k > 0:\n    x = x * 2\nreturn x",
        "return x * (2 if x.is_cpu else 3)",
        "if 'mask' in mask:\n    x = x * 2\nreturn x",
        "seen = 0\nfor i in range(3):\n    seen += (x > i).sum().item() * self.weight\nreturn seen",
        "scale = x.sum().item()\nreturn x / scale + round(scale)",
        "scale = x.sum().item()\nscale = scale * 2\nreturn x / scale",
        "return torch.tensor(x.tolist())",
        "return torch.bucketize(x, rows, right=True)",
        "return torch.nansum(x, dtype=torch.float32)",
        "return torch.round(x, decimals=k)",
        "return torch.hypot(torch.rand_like(x), x)",
    ],
)
def test_left(body):
    assert fixed(body) == body


@pytest.mark.parametrize(
    "body, after",
    [
        ("x[x < 0] = 0\nreturn x", "x.masked_fill_(x < 0, 0)\nreturn x"),
        ("x[torch.isnan(x)] = 0.0\nreturn x", "x.masked_fill_(torch.isnan(x), 0.0)\nreturn x"),
        ("x[x < 0] = 0.5\nreturn x", "x[x < 0] = 0.5\nreturn x"),
        ("return x[[True, False, True]]", "return x[[0, 2]]"),
        ("if x.sum() > 0:\n    x = x * 2\nreturn x", "if x.sum() > 0:\n    x = x * 2\nreturn x"),
    ],
)
def test_safe(body, after):
    assert fixed(body, Grade.SAFE) == after


@pytest.mark.parametrize(
    "body, after",
    [
        ("return x.masked_select(~(x > 0)).float().sum()", "return x.masked_select(~(x > 0)).float().sum()"),
        ("x = x.float()\nreturn x[~(x > 0)].max()", 'x = x.float()\nreturn x.masked_fill(~(~(x > 0)), float("-inf")).max()'),
        ("n = x[x > 0].numel()\nreturn max(1, n)", "n = (x > 0).sum()\nreturn n.clamp(min=1)"),
        ("if not (x.sum() > 0 or x.min() < 0):\n    x = -x\nreturn x", "x = torch.where(torch.logical_not(torch.logical_or(x.sum() > 0, x.min() < 0)), -x, x)\nreturn x"),
        ("k = x.argmax()\nreturn x[k - 1] if k > 0 else x[0]", "k = x.argmax()\nreturn x.index_select(0, (k - 1).view(1)).squeeze(0) if k > 0 else x[0]"),
        ("seen = 0\nfor i in range(3):\n    seen += (x > i).sum().item()\nreturn seen", "seen = 0\nfor i in range(3):\n    seen += (x > i).sum()\nseen = int(seen)\nreturn seen"),
        ("part = 0\nfor i in range(3):\n    part += (x > i).sum().item() / 4\nreturn part", "part = 0\nfor i in range(3):\n    part += (x > i).sum() / 4\npart = float(part)\nreturn part"),
        ("part = 0.0\nfor i in range(3):\n    part += (x > i).sum().item()\nreturn part", "part = 0.0\nfor i in range(3):\n    part += (x > i).sum()\npart = float(part)\nreturn part"),
        (
            "# above\nif x.sum() > 0:  # why\n    # inside\n    x = x * 2  # twice\nreturn x",
            "# above\n# inside\n# twice\nx = torch.where(x.sum() > 0, x * 2, x)  # why\nreturn x",
        ),
        ("if x.sum() > 0: x = -x  # why\nreturn x", "x = torch.where(x.sum() > 0, -x, x)  # why\nreturn x"),
        ("if x.sum():\n    self.best = x.mean()\nreturn x", "self.best = torch.where(x.sum() != 0, x.mean(), self.best)\nreturn x"),
    ],
)
def test_unsafe(body, after):
    assert fixed(body) == after
