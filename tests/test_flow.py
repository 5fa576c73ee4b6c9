"""Values that lint follows through the steps of a program, where a labelled case of one `step` does not show it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from support import MAIN, ROOT, project

from xlaport import engine
from xlaport.analysis import project as projects
from xlaport.analysis.flow.traces import Traces
from xlaport.config import Settings

LOOP = """
def train(model, loader, optimizer, device):
    meter = Meter()
    for x, y in loader:
        x = x.to(device)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        {body}
"""
METER = """
class Meter:
    def __init__(self):
        self.val = 0

    def update(self, val):
        self.val = val

    def __str__(self):
        return "{val:.2f}".format(**self.__dict__)

    def count(self):
        return 1
"""


def lines(files: str | dict[str, str], *codes: str, name: str = MAIN) -> list[str]:
    """The lines of one file with a finding of these codes."""
    made = project(files)
    found = engine.findings_in(made, ROOT / name, Settings(), lint=True)
    text = made.sources[ROOT / name].text.splitlines()
    return [text[finding.location.line - 1].strip() for finding in found if finding.code in codes]


HELPER = "import torch\n\ndef check(boxes):\n    assert (boxes[:, 2:] >= boxes[:, :2]).all()\n    return boxes * 2\n"
ASSERTED = ["assert (boxes[:, 2:] >= boxes[:, :2]).all()"]


def test_a_helper_that_another_file_calls_in_forward_runs_in_the_step():
    caller = "import torch\nfrom ops import check\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return check(x)\n"
    assert lines({"ops.py": HELPER, MAIN: caller}, "XP401", name="ops.py") == ASSERTED


def test_a_helper_that_another_file_calls_in_a_training_loop_runs_in_the_step():
    caller = "import torch\nfrom ops import check\nclass Meter: pass\n" + LOOP.format(body="check(loss)")
    assert lines({"ops.py": HELPER, MAIN: caller}, "XP401", name="ops.py") == ASSERTED


def test_a_helper_that_is_called_before_the_steps_does_not():
    caller = "import torch\nfrom ops import check\n\ndef main(anchors):\n    for anchor in anchors:\n        check(anchor)\n"
    assert lines({"ops.py": HELPER, MAIN: caller}, "XP401", name="ops.py") == []


@pytest.mark.parametrize(
    "body, found",
    [
        ("if loss > 1: break", True),  # the model is a parameter, known by its name only
        ("meter.update(loss); print(f'{meter}')", True),
        ("meter.update(loss); print(' '.join([str(m) for m in [meter]]))", True),
        ("meter.update(loss); print(meter.count())", False),
        ("meter.update(1); print(f'{meter}')", False),
    ],
)
def test_what_a_training_loop_reads(body, found):
    text = "import torch\n" + METER + LOOP.format(body=body)
    assert bool(lines(text, "XP401", "XP501")) is found


@pytest.mark.parametrize(
    "around, place, severities",
    [
        ("for epoch in range(9):", "in a step", ["warning"]),
        ("for epoch in range(9):", "in the outer loop", ["note"]),
        ("if True:", "in the outer loop", []),  # behind the last epoch
    ],
)
def test_a_read_once_an_epoch_is_a_note(around, place, severities):
    read = {"in a step": "            print(total.item())", "in the outer loop": "        print(total.item())"}[place]
    text = f"""
import torch

def fit(model, loader, optimizer, device):
    {around}
        total = torch.zeros((), device=device)
        for x in loader:
            loss = model(x.to(device)).sum()
            loss.backward()
            optimizer.step()
            total += loss.detach()
{read}
"""
    assert [finding.severity.value for finding in engine.findings_in(project(text), ROOT / MAIN, Settings(), lint=True) if finding.code == "XP501"] == severities


def test_a_sum_that_began_as_a_number_is_read():
    text = LOOP.format(body="right = 0; right += gathered(x); print(right.item())")
    assert lines("import torch\n" + text, "XP501") == ["right = 0; right += gathered(x); print(right.item())"]


@pytest.mark.parametrize(
    "call, read",
    [
        ("self.layers(x, mask=self.mask)", True),
        ("self.layers(x, self.mask)", True),
        ("self.layers(x, self.mask, is_causal=True)", False),
        ("self.layers(x)", False),
        ("self.layers(x, None)", False),
        ("self.encoder(x, self.mask)", True),  # of nn.Transformer
        ("self.decoder(x, self.mask)", False),
    ],
)
def test_a_mask_that_may_be_causal_is_read(call, read):
    text = f"""
import torch
from torch import nn

class Net(nn.Transformer):
    def __init__(self, size):
        super().__init__(size)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(size, 2), 2)
        self.decoder = nn.Linear(size, 2)
        self.register_buffer("mask", torch.ones(8, 8).triu())

    def forward(self, x):
        return {call}
"""
    assert bool(lines(text, "XP501")) is read


@pytest.mark.parametrize("test", ["x.is_xpu", "x.is_hpu and flag", "x.requires_grad"])
def test_what_a_tensor_is_the_host_knows(test):
    assert lines(f"import torch\n\ndef forward(self, x):\n    if ({test}) and x.shape[0] > 1:\n        return x * 2\n    return x\n", "XP401") == []


def test_lists_of_other_lengths_hold_the_same_things():
    text = METER + "\nclass Shown:\n    def __init__(self, meters):\n        self.meters = meters\n\n    def show(self):\n        print([str(m) for m in self.meters])\n"
    body = "first = Shown([meter]); second = Shown([meter, meter]); meter.update(loss); first.show()"
    assert 'return "{val:.2f}".format(**self.__dict__)' in lines("import torch\n" + text + LOOP.format(body=body), "XP501")


def test_a_static_method_is_not_handed_its_object():
    text = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return self.scaled(x, self.times)

    @staticmethod
    def scaled(values, times):
        if times > 1:
            return values * times
        return values if values.sum() > 0 else -values
"""
    assert lines(text, "XP401") == ["return values if values.sum() > 0 else -values"]


def test_a_gradient_of_either_branch_is_one():
    text = """
import torch

def step(i, s, device, flag):
    weight = torch.ones(4, 4, device=device, requires_grad=True)
    plain = torch.ones(4, 4, device=device)
    x = plain if flag else weight
    torch.nn.functional.glu(plain)
    return torch.nn.functional.glu(x)
"""
    assert lines(text, "XP510") == ["return torch.nn.functional.glu(x)"]


def test_trees_go_without_the_collector(monkeypatch):
    """Each has cycles through its nodes' parents, which the project cuts when it lets go of one."""
    monkeypatch.setattr(projects, "KEPT_TEXT", 10)
    made = project({name: "import torch\nx = 1\n" for name in ("a.py", "b.py", "c.py")})
    gc.disable()
    try:
        made.turn_to(ROOT / "a.py")
        tree = weakref.ref(made.turn_to(ROOT / "b.py").facts.tree)
        assert tree() is not None
        made.turn_to(ROOT / "c.py")
        assert tree() is None
    finally:
        gc.enable()


def found_in(text: str) -> list:
    return engine.findings_in(project(text), ROOT / MAIN, Settings(), lint=True)


HERE = Path(__file__).parent
PROGRAMS = [*sorted((HERE / "lint_cases").glob("*.py"))[::4], *sorted((HERE.parent / "sample_models").rglob("*.py"))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_functions_without_a_trace_change_nothing(program, monkeypatch):
    text = program.read_text()
    found = found_in(text)
    monkeypatch.setattr(Traces, "is_left_by", lambda traces, function: True)
    assert found_in(text) == found


@pytest.mark.parametrize(
    "body",
    [
        "self.total = total",  # itself
        "self.keep(total)",  # by a method
        "keep_in(self, total)",  # by a function that is handed the object
        "held = Held(total); self.held = held",
        "setattr_later = lambda: self.keep(total); setattr_later()",
    ],
)
def test_what_a_function_leaves_is_known_in_the_step(body):
    text = f"""
import torch

class Held:
    def __init__(self, total):
        self.total = total

def keep_in(owner, total):
    owner.total = total

class Trainer:
    def keep(self, total):
        self.total = total

    def prepare(self, device):
        total = torch.zeros((), device=device)
        {body}

    def training_step(self, batch):
        print(float(self.total))
        return batch.sum()

    def forward(self, x):
        return x if self.total > 0 else -x
"""
    assert {finding.location.line for finding in found_in(text)} >= {text[: text.index("if self.total")].count("\n") + 1}
