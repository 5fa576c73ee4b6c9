"""What a name refers to, what kind of value it has, where a step ends, what a condition folds to."""

from __future__ import annotations

import ast
import re

import pytest
from support import MAIN, ROOT, module, node_of, program, project

from xlaport.analysis import parallel
from xlaport.analysis.folding import fold, outermost_condition
from xlaport.analysis.text import LazyPattern, finder
from xlaport.analysis.training import Training
from xlaport.analysis.values import Kind
from xlaport.ruleset import load

AUTOCAST = "torch.cuda.amp.autocast"


def qualified(files, expression: str, name: str = MAIN) -> tuple[str, ...]:
    seen = module(files, name)
    return seen.names.qualified(node_of(seen, expression))


def kind(files, expression: str, name: str = MAIN) -> Kind:
    seen = module(files, name)
    return seen.values.kind(node_of(seen, expression))


def guess(files, expression: str) -> Kind:
    seen = module(files)
    return seen.values.guess(node_of(seen, expression))


# -- names


@pytest.mark.parametrize(
    "text, expression, expected",
    [
        ("import torch\ntorch.cuda.amp.autocast()", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch as t\nt.cuda.amp.autocast()", "t.cuda.amp.autocast", AUTOCAST),
        ("import torch.cuda.amp\ntorch.cuda.amp.autocast()", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch.cuda.amp as amp\namp.autocast()", "amp.autocast", AUTOCAST),
        ("import os, torch as t, sys\nt.cuda.amp.autocast()", "t.cuda.amp.autocast", AUTOCAST),
        ("from torch import cuda\ncuda.amp.autocast()", "cuda.amp.autocast", AUTOCAST),
        ("from torch import nn, cuda as c\nc.amp.autocast()", "c.amp.autocast", AUTOCAST),
        ("from torch.cuda import amp as a\na.autocast()", "a.autocast", AUTOCAST),
        ("from torch.cuda.amp import autocast as ac\nac()", "ac", AUTOCAST),
        ("from torch.cuda.amp import (\n    GradScaler,\n    autocast,\n)\nautocast()", "autocast", AUTOCAST),
        ("from torch.cuda.amp import *\nautocast()", "autocast", AUTOCAST),
        ("import torch\nac = torch.cuda.amp.autocast\nac()", "ac", AUTOCAST),
        ("import torch\nac: type = torch.cuda.amp.autocast\nac()", "ac", AUTOCAST),
        ("import torch\na = torch.cuda.amp\nb = a.autocast\nc = b\nc()", "c", AUTOCAST),
        ("import torch\na, b = torch.cuda.amp, 1\na.autocast()", "a.autocast", AUTOCAST),
        ("import torch\na = b = torch.cuda.amp\na.autocast()", "a.autocast", AUTOCAST),
        ("import torch\nif (a := torch.cuda.amp): a.autocast()", "a.autocast", AUTOCAST),
        ("import torch\ngetattr(torch.cuda.amp, 'autocast')()", "getattr(torch.cuda.amp, 'autocast')", AUTOCAST),
        ("import torch, functools\nac = functools.partial(torch.cuda.amp.autocast, enabled=x)\nac()", "ac", AUTOCAST),
        ("from torch.cuda.amp.autocast_mode import autocast\nautocast()", "autocast", AUTOCAST),
        ("def f():\n    import torch as t\n    t.cuda.amp.autocast()", "t.cuda.amp.autocast", AUTOCAST),
        ("import torch\ndef f():\n    def g():\n        return torch.cuda.amp.autocast\n", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch\nclass A:\n    def f(self):\n        torch.cuda.amp.autocast()", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch\nclass A:\n    torch = 3\n    def f(self):\n        torch.cuda.amp.autocast()", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch\nx = [torch.cuda.amp.autocast() for y in z]", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch\nx = lambda: torch.cuda.amp.autocast()", "torch.cuda.amp.autocast", AUTOCAST),
        ("import torch\ndef f():\n    global ac\n    ac = torch.cuda.amp.autocast\ndef g():\n    ac()", "ac", AUTOCAST),
        ("import torch\ndef f():\n    ac = None\n    def g():\n        nonlocal ac\n        ac = torch.cuda.amp.autocast\n    ac()", "ac", AUTOCAST),
        ("import torch\nac = torch.cuda.amp.autocast\n@ac()\ndef f(ac): pass", "ac", AUTOCAST),
        ("from torch.nn.modules.linear import Linear\nLinear()", "Linear", "torch.nn.Linear"),
        ("from torch.nn import *\nLinear()", "Linear", "torch.nn.Linear"),
        ("from torch.utils.data.dataloader import DataLoader\nDataLoader()", "DataLoader", "torch.utils.data.DataLoader"),
        ("import torch.distributed as dist\ndist.init_process_group()", "dist.init_process_group", "torch.distributed.init_process_group"),
        ("from torch.nn.parallel.distributed import DistributedDataParallel as DDP\nDDP()", "DDP", "torch.nn.parallel.DistributedDataParallel"),
        ("import pytorch_lightning as pl\npl.Trainer()", "pl.Trainer", "lightning.pytorch.Trainer"),
        ("import os\nos.path.join()", "os.path.join", "os.path.join"),
    ],
)
def test_what_a_name_refers_to(text, expression, expected):
    assert qualified(text + "\n", expression) == (expected,)


@pytest.mark.parametrize(
    "text, expression",
    [
        ("def f(torch):\n    torch.cuda.amp.autocast()", "torch.cuda.amp.autocast"),
        ("import torch\ndef f(torch):\n    torch.cuda.amp.autocast()", "torch.cuda.amp.autocast"),
        ("import torch\ndef f():\n    torch = make()\n    torch.cuda()", "torch.cuda"),
        ("import torch\nf = lambda torch: torch.cuda()", "torch.cuda"),
        ("def cuda(): pass\ncuda()", "cuda"),
        ("x.cuda.amp.autocast()", "x.cuda.amp.autocast"),
        ("torch.cuda.amp.autocast()", "torch.cuda.amp.autocast"),
        ("class A:\n    import torch\n    def f(self):\n        torch.cuda.amp.autocast()", "torch.cuda.amp.autocast"),
        ("from torch.cuda.amp import *\nprint(1)", "print"),
        ("from torch.cuda.amp import *\nhelper()", "helper"),
        ("x = x.cuda\nx.y", "x.y"),
        ("a = b\nb = a\na.c", "a.c"),
        ("import torch\nfor torch in y: pass\ndef f():\n    with z as torch:\n        torch.cuda", "torch.cuda"),
    ],
)
def test_what_a_name_does_not_refer_to(text, expression):
    assert qualified(text + "\n", expression) == ()


@pytest.mark.parametrize(
    "text, expression, expected",
    [
        ("try:\n    from apex.amp import autocast\nexcept ImportError:\n    from torch.cuda.amp import autocast\nautocast()", "autocast", {"apex.amp.autocast", AUTOCAST}),
        ("import torch\nif new:\n    ac = torch.autocast\nelse:\n    ac = torch.cuda.amp.autocast\nac()", "ac", {"torch.autocast", AUTOCAST}),
        ("import torch\nT = torch.cuda.FloatTensor if c else torch.FloatTensor\nT(1)", "T", {"torch.cuda.FloatTensor", "torch.FloatTensor"}),
        ("import torch\nac = torch.amp.autocast or torch.cuda.amp.autocast\nac()", "ac", {"torch.amp.autocast", AUTOCAST}),
    ],
)
def test_alternatives_are_all_known(text, expression, expected):
    assert set(qualified(text + "\n", expression)) == expected


@pytest.mark.parametrize(
    "importing, expression, expected",
    [
        ("from . import common\ncommon.device", "common.device", "pkg.sub.common.device"),
        ("from .common import device\ndevice", "device", "pkg.sub.common.device"),
        ("from .. import common\ncommon.device", "common.device", "pkg.common.device"),
        ("from ..common import device as d\nd", "d", "pkg.common.device"),
        ("from ...common import device\ndevice", "device", "common.device"),
    ],
)
def test_relative_imports_count_from_the_package(importing, expression, expected):
    assert qualified({"pkg/sub/main.py": importing + "\n"}, expression, "pkg/sub/main.py") == (expected,)


DEVICE = "import torch\ndevice = torch.device('cuda')\n"


@pytest.mark.parametrize(
    "files",
    [
        {"common.py": DEVICE, MAIN: "from common import device\nx.to(device)\n"},
        {"common.py": DEVICE, MAIN: "from common import device as d\ndevice = d\nx.to(device)\n"},
        {"common.py": DEVICE, MAIN: "from common import *\nx.to(device)\n"},
        {"common.py": DEVICE, "all.py": "from common import *\n", MAIN: "from all import *\nx.to(device)\n"},
        {"common.py": DEVICE, "all.py": "from common import *\n", MAIN: "from all import device\nx.to(device)\n"},
        {"common.py": DEVICE, "all.py": "from common import device\n", MAIN: "from all import device\nx.to(device)\n"},
        {"lib/common.py": DEVICE, "lib/__init__.py": "from .common import *\n", MAIN: "from lib import device\nx.to(device)\n"},
        {"lib/common.py": DEVICE, "lib/__init__.py": "", MAIN: "from lib.common import device\nx.to(device)\n"},
        {"common.py": DEVICE, "unused.py": "from common import device\n", MAIN: "def f():\n    from common import device\n    x.to(device)\n"},
        {"common.py": DEVICE, MAIN: "try:\n    from common import device\nexcept ImportError:\n    device = None\nx.to(device)\n"},
        {"src/common.py": DEVICE, MAIN: "from common import device\nx.to(device)\n"},
    ],
)
def test_a_device_defined_in_another_file(files):
    assert Kind.DEVICE in kind(files, "device")


def test_a_device_of_another_file_through_its_module():
    assert Kind.DEVICE in kind({"common.py": DEVICE, MAIN: "import common\nx.to(common.device)\n"}, "common.device")
    assert Kind.DEVICE in kind({"lib/common.py": DEVICE, MAIN: "import lib.common as c\nx.to(c.device)\n"}, "c.device")


def test_star_imports_in_a_circle_end():
    files = {"a.py": "from b import *\n", "b.py": "from a import *\n", MAIN: "from a import *\nx.to(device)\n"}
    assert kind(files, "device") is Kind.UNKNOWN


# -- values


@pytest.mark.parametrize(
    "text, expression, expected",
    [
        ("rank = torch.distributed.get_rank()\nx.to(rank)", "rank", Kind.RANK),
        ("rank = int(os.environ['LOCAL_RANK'])\nx.to(rank)", "rank", Kind.RANK),
        ("rank = int(os.environ.get('RANK', 0))\nx.to(rank)", "rank", Kind.RANK),
        ("rank = int(os.getenv('LOCAL_RANK'))\nx.to(rank)", "rank", Kind.RANK),
        ("gpu = torch.distributed.get_rank() % torch.cuda.device_count()\nx.to(gpu)", "gpu", Kind.RANK),
        ("def f(rank, size): x.to(rank)\ntorch.multiprocessing.spawn(f, args=(2,))", "rank", Kind.RANK),
        ("d = torch.float16\nx.to(d)", "d", Kind.DTYPE),
        ("d = torch.half if h else torch.float32\nx.to(d)", "d", Kind.DTYPE),
        ("x.to(y.dtype)", "y.dtype", Kind.DTYPE),
        ("def f(d: torch.dtype): x.to(d)", "d", Kind.DTYPE),
        ("d = torch.device('cuda')\nx.to(d)", "d", Kind.DEVICE),
        ("d = torch.device('cuda') if c else torch.device('cpu')\nx.to(d)", "d", Kind.DEVICE),
        ("x.to(y.device)", "y.device", Kind.DEVICE),
        ("def f(d: torch.device): x.to(d)", "d", Kind.DEVICE),
        ("def f(d: 'torch.device | None' = None): x.to(d)", "d", Kind.UNKNOWN),
        ("def f(d: torch.device | None = None): x.to(d)", "d", Kind.DEVICE),
        ("from typing import Optional\ndef f(d: Optional[torch.device] = None): x.to(d)", "d", Kind.DEVICE),
        ("d = torch.device('cuda')\ndef f(x, d=d):\n    x.to(d)", "d", Kind.DEVICE),
        ("d = 'cuda'\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = 'cuda' if c else 'cpu'\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = f'cuda:{i}'\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = 'cuda:%d' % i\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = 'cuda:{}'.format(i)\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = 'cuda:' + str(i)\nx.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("d = 'data'\nx.to(d)", "d", Kind.STRING),
        ("def f(d='cuda'): x.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("def f(*, d='cuda'): x.to(d)", "d", Kind.DEVICE_STRING | Kind.STRING),
        ("x = torch.zeros(3)\nx.cuda()", "x", Kind.TENSOR),
        ("x = torch.zeros(3).cuda().float()\nx.cuda()", "x", Kind.TENSOR),
        ("x = torch.nn.functional.relu(y)\nx.cuda()", "x", Kind.TENSOR),
        ("x = 2 * torch.ones(1)\nx.cuda()", "x", Kind.TENSOR),
        ("def f(x: torch.Tensor): x.cuda()", "x", Kind.TENSOR),
        ("x = torch.FloatTensor(3)\nx.cuda()", "x", Kind.TENSOR),
        ("T = torch.cuda.FloatTensor\nx = T(3)\nx.cuda()", "x", Kind.TENSOR),
        ("T = torch.cuda.FloatTensor\nx.type(T)", "T", Kind.LEGACY_TYPE),
        ("net = torch.nn.Linear(1, 1).cuda()\nnet.eval()", "net", Kind.MODULE),
        ("class N(torch.nn.Module): pass\nnet = N()\nnet.cuda()", "net", Kind.MODULE),
        ("class B(torch.nn.Module): pass\nclass N(B): pass\nnet = N().to(d)\nnet.cuda()", "net", Kind.MODULE),
        ("net = torch.nn.DataParallel(n)\nnet.cuda()", "net", Kind.MODULE),
        ("def make(): return torch.nn.Linear(1, 1)\nnet = make()\nnet.cuda()", "net", Kind.MODULE),
        ("o = torch.optim.SGD(p)\no.step()", "o", Kind.OPTIMIZER),
        ("def make():\n    return torch.optim.SGD(p), 1\no, n = make()\no.step()", "o", Kind.OPTIMIZER),
        ("class O(torch.optim.Optimizer): pass\no = O(p)\no.step()", "o", Kind.OPTIMIZER),
        ("s = torch.optim.lr_scheduler.StepLR(o, 1)\ns.step()", "s", Kind.SCHEDULER),
        ("class S(torch.optim.lr_scheduler.LRScheduler): pass\ns = S(o)\ns.step()", "s", Kind.SCHEDULER),
        ("s = torch.cuda.amp.GradScaler()\ns.step(o)", "s", Kind.SCALER),
        ("l = torch.utils.data.DataLoader(d)\nfor x in l: pass", "l", Kind.LOADER),
        ("class L(torch.utils.data.DataLoader): pass\nl = L(d)\nfor x in l: pass", "l", Kind.LOADER),
        ("n = torch.cuda.device_count()\nprint(n)", "n", Kind.DEVICE_COUNT),
        ("n = len(x)\nprint(n)", "n", Kind.INT),
        ("n = x.shape[0]\nprint(n)", "n", Kind.INT),
        ("n = not x\nprint(n)", "n", Kind.BOOL),
        ("for i in range(3): print(i)", "i", Kind.INT),
        ("for i, x in enumerate(y): print(i)", "i", Kind.INT),
        ("s = torch.load(f)\nn.load_state_dict(s['model'])", "s['model']", Kind.STATE),
        # rebinding: what comes before in the same block no longer holds
        ("d = 'cuda'\nd = torch.float16\nx.to(d)", "d", Kind.DTYPE),
        ("d = torch.float16\nif c:\n    d = torch.device('cuda')\nx.to(d)", "d", Kind.DTYPE | Kind.DEVICE),
        # a definition that refers to itself ends
        ("x = x.view(1)\nx.cuda()", "x", Kind.UNKNOWN),
        ("def f(): return f()\ny = f()\ny.cuda()", "y", Kind.UNKNOWN),
    ],
)
def test_kinds_of_values(text, expression, expected):
    found = kind(f"import os\nimport torch\n{text}\n", expression)
    assert found == expected or expected and expected in found and found & ~expected in (Kind.INT, Kind.STRING, Kind.UNKNOWN)


@pytest.mark.parametrize(
    "text, expression, expected",
    [
        ("x.to(device)", "device", Kind.DEVICE),
        ("x.to(rank)", "rank", Kind.RANK),
        ("optimizer_d.step()", "optimizer_d", Kind.OPTIMIZER),
        ("lr_scheduler.step()", "lr_scheduler", Kind.SCHEDULER),
        ("env.step(a)", "env", Kind.UNKNOWN),
        ("device = 3\nx.to(device)", "device", Kind.INT),
    ],
)
def test_names_are_a_guess_only_without_evidence(text, expression, expected):
    assert guess(text + "\n", expression) == expected


def test_attributes_of_self():
    text = program("""
        import torch
        class Base:
            def __init__(self, device):
                self.device = torch.device(device)
        class Trainer(Base):
            def __init__(self, net, lr: float = 0.1):
                super().__init__("cuda")
                self.net = torch.nn.Linear(1, 1)
                self.opt, self.rank = torch.optim.SGD(net), torch.distributed.get_rank()
            @property
            def kind(self):
                return torch.float16
            def train(self):
                print(self.device, self.net, self.opt, self.rank, self.kind)
        trainer = Trainer(None)
        trainer.opt.step()
        """)
    expected = {
        "self.device": Kind.DEVICE, "self.net": Kind.MODULE, "self.opt": Kind.OPTIMIZER, "self.rank": Kind.RANK, "self.kind": Kind.DTYPE,
        "trainer.opt": Kind.OPTIMIZER,
    }
    assert {name: kind(text, name) for name in expected} == expected


def test_parameters_take_what_calls_pass():
    text = "import torch\ndef f(a, b, *, c=None):\n    print(a, b, c)\nf(torch.device('cuda'), torch.float16, c=torch.zeros(1))\n"
    assert (kind(text, "a"), kind(text, "b"), kind(text, "c")) == (Kind.DEVICE, Kind.DTYPE, Kind.TENSOR)


def test_parameters_take_what_another_file_passes():
    files = {"lib.py": "def train(model, place):\n    model.to(place)\n", MAIN: "import torch\nfrom lib import train\ntrain(m, torch.device('cuda'))\n"}
    assert kind(files, "place", "lib.py") == Kind.DEVICE


def test_methods_take_what_calls_pass():
    text = "import torch\nclass A:\n    def f(self, o):\n        o.step()\nA().f(torch.optim.SGD(p))\n"
    assert kind(text, "o") == Kind.OPTIMIZER


OPTIONS = program("""
    import argparse
    import torch
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", "--device", default="cuda")
    parser.add_argument("--local-rank", type=int, default=0)
    parser.add_argument("--use-cuda", action="store_true")
    parser.add_argument("--place", dest="where", default="cuda:0")
    parser.add_argument("data", type=str)
    """)
OPTION_KINDS = {
    "args.device": Kind.DEVICE_STRING, "args.local_rank": Kind.RANK, "args.use_cuda": Kind.BOOL, "args.where": Kind.DEVICE_STRING,
    "args.data": Kind.STRING,
}
OPTION_USES = "".join(f"print({name})\n" for name in OPTION_KINDS)


@pytest.mark.parametrize("option, expected", OPTION_KINDS.items())
def test_options_of_argparse(option, expected):
    assert expected in kind(OPTIONS + "args = parser.parse_args()\n" + OPTION_USES, option)


@pytest.mark.parametrize("option, expected", OPTION_KINDS.items())
def test_options_of_argparse_in_another_file(option, expected):
    files = {"options.py": OPTIONS, MAIN: "from options import parser\nargs = parser.parse_args()\n" + OPTION_USES}
    assert expected in kind(files, option)


def test_options_set_by_hand():
    text = "import os\nargs.gpu = int(os.environ['LOCAL_RANK'])\nx.to(args.gpu)\n"
    assert Kind.RANK in kind(text, "args.gpu")


# -- training

MARK = re.compile(r"#\s*(ends|step|loop)\b")


def marks(text: str) -> set[tuple[int, str]]:
    """(line, mark): a step that `ends` its iteration, another `step`, a `loop` whose iterations need an end."""
    return {(number, found[1]) for number, line in enumerate(text.splitlines(), 1) if (found := MARK.search(line))}


def training(text: str) -> Training:
    seen = module(text)
    return Training(seen.facts, seen.names, seen.values)


def seen_in(text: str) -> set[tuple[int, str]]:
    found = training(text)
    steps = {(step.call.lineno, "ends" if step.ends_iteration else "step") for step in found.steps}
    return steps | {(loop.lineno, "loop") for loop in found.loops_without_end}


STEPS = {
    "a plain loop": """
        for x in loader:
            optimizer.zero_grad()
            net(x).backward()
            optimizer.step()  # ends
            scheduler.step()
        """,
    "two optimizers": """
        for x in loader:
            d_loss.backward()
            d_optimizer.step()  # step
            g_loss.backward()
            g_optimizer.step()  # ends
        """,
    "accumulation by modulo": """
        for i, x in enumerate(loader):  # loop
            loss.backward()
            if (i + 1) % 4 == 0:
                optimizer.step()  # step
                optimizer.zero_grad()
        """,
    "accumulation in an inner loop": """
        for step in range(100):
            for micro in range(4):  # loop
                loss.backward()
            optimizer.step()  # ends
        """,
    "a scaler in one branch": """
        for x in loader:
            if amp:
                scaler.scale(loss).backward()
                scaler.step(optimizer)  # ends
                scaler.update()
            else:
                loss.backward()
                optimizer.step()  # ends
        """,
    "a scaler beside gradients": """
        for x in loader:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)  # ends
            scaler.update()
        """,
    "a closure": """
        for x in loader:
            def closure():
                optimizer.zero_grad()
                loss.backward()
                return loss
            optimizer.step(closure)  # ends
        """,
    "a generator trained now and then": """
        for i, x in enumerate(loader):  # loop
            d_loss.backward()
            d_optimizer.step()  # step
            if i % 5 == 0:
                g_loss.backward()
                g_optimizer.step()  # step
        """,
    "a while loop": """
        while True:
            loss.backward()
            optimizer.step()  # ends
            if done:
                break
        """,
    "a loop in a loop": """
        for epoch in range(3):
            for x in loader:
                loss.backward()
                optimizer.step()  # ends
            scheduler.step()
        """,
    "a method without a loop": """
        class Agent:
            def learn(self, batch):
                self.optimizer.zero_grad()
                loss(batch).backward()
                self.optimizer.step()  # ends
        """,
    "two optimizers in a method": """
        class Agent:
            def learn(self, batch):
                loss.backward()
                self.actor_optimizer.step()  # step
                self.critic_optimizer.step()  # ends
        """,
    "a helper that steps": """
        def step(optimizer, loss):
            loss.backward()
            optimizer.step()  # ends
        for x in loader:
            step(optimizer, x)
        """,
    "a step on module level": """
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # ends
        """,
    "a branch that continues": """
        for x in loader:
            if warm:
                loss.backward()
                optimizer.step()  # ends
                continue
            loss.backward()
            optimizer.step()  # ends
        """,
    "a branch that continues, below another": """
        for x in loader:
            if train:
                if warm:
                    loss.backward()
                    optimizer.step()  # ends
                    continue
                loss.backward()
                optimizer.step()  # ends
        """,
    "steps before a branch that continues": """
        for x in loader:
            if train:
                loss.backward()
                a_optimizer.step()  # step
                b_optimizer.step()  # ends
                continue
            print(x)
        """,
    "a choice in an expression": """
        for x in loader:
            loss.backward()
            scaler.step(optimizer) if amp else optimizer.step()  # ends
        """,
    "a step that an expression may skip": """
        for x in loader:  # loop
            loss.backward()
            optimizer.step() if ok else None  # step
        """,
    "optimizers in a dict": """
        for x in loader:
            loss.backward()
            optimizers["net"].step()  # ends
        """,
    "a loop over optimizers": """
        for x in loader:
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()  # ends
        """,
    "a conditional step that trains in its branch": """
        for i, x in enumerate(loader):
            if training:
                loss.backward()
                optimizer.step()  # ends
        """,
    "an environment": """
        for i in range(10):
            state = env.step(action)
            profiler.step()
            loss.backward()
            optimizer.step()  # ends
        """,
    "what only an optimizer has": """
        for x in loader:
            thing.zero_grad()
            loss.backward()
            thing.step()  # ends
        """,
    "dead code": """
        for x in loader:
            if False:
                optimizer.step()
            loss.backward()
            optimizer.step()  # ends
        """,
    "a critic trained several times": """
        for x in loader:
            for _ in range(5):
                d_loss.backward()
                d_optimizer.step()  # ends
            g_loss.backward()
            g_optimizer.step()  # ends
        """,
    "two optimizers and one scaler": """
        for x in loader:
            scaler.scale(loss).backward()
            scaler.step(a_optimizer)  # step
            scaler.step(b_optimizer)  # ends
            scaler.update()
        """,
    "a step that may be skipped": """
        for x in loader:  # loop
            loss.backward()
            if norm < 10:
                optimizer.step()  # step
        """,
    "accumulation, its step deep inside": """
        for i, x in enumerate(loader):  # loop
            with autocast:
                loss.backward()
                if i % 4 == 3 or i + 1 == len(loader):
                    try:
                        if clip:
                            clip_grad_norm_(p, 1)
                        optimizer.step()  # step
                    finally:
                        optimizer.zero_grad()
        """,
    "a step in every branch of accumulation": """
        for i, x in enumerate(loader):
            loss.backward()
            if i % 2:
                a_optimizer.step()  # ends
            else:
                b_optimizer.step()  # ends
        """,
    "a loop after a loop": """
        for x in loader:
            loss.backward()
            optimizer.step()  # ends
        for x in loader:
            other.backward()
            optimizer.step()  # ends
        """,
    "methods that step and a loop that calls them": """
        class GAN:
            def train_d(self):
                loss.backward()
                self.d_optimizer.step()  # ends
            def train_g(self):
                loss.backward()
                self.g_optimizer.step()  # ends
        for x in loader:
            gan.train_d()
            gan.train_g()
        """,
    "an optimizer of one's own": """
        class Own(torch.optim.Optimizer):
            def step(self, closure=None):
                super().step(closure)
        """,
}


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS)
def test_where_a_step_ends(text):
    text = "import torch\n" + program(text)
    assert seen_in(text) == marks(text)


def test_the_optimizer_of_a_scaler_step():
    step, = training("import torch\ns = torch.amp.GradScaler('cuda')\ns.step(net.opt)\n").steps
    assert (ast.unparse(step.optimizer), ast.unparse(step.scaler)) == ("net.opt", "s")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("with torch.no_grad():\n    for x in loader:\n        model(x)", [3]),
        ("@torch.no_grad()\ndef f():\n    for x in loader:\n        model(x)", [4]),
        ("def f():\n    model.eval()\n    for x in loader:\n        model(x)", [4]),
        ("for x in loader:\n    with torch.inference_mode():\n        model(x)", [2]),
        ("with torch.no_grad():\n    for i, (x, y) in enumerate(tqdm(val_loader)):\n        model(x)", [3]),
        ("for x in loader:\n    model(x)", []),
        ("with torch.no_grad():\n    for x in loader:\n        print(x)", []),
        ("with torch.no_grad():\n    for x in names:\n        model(x)", []),
        ("def f():\n    model.eval()\n    for x in loader:\n        model(x).backward()", []),
    ],
)
def test_evaluation_loops(text, expected):
    assert [loop.lineno for loop in training(f"import torch\n{text}\n").evaluation_loops] == expected


@pytest.mark.parametrize("line", ["import accelerate", "from accelerate import Accelerator", "import lightning as L", "from pytorch_lightning import Trainer"])
def test_frameworks_end_steps_themselves(line):
    expected = line != "import accelerate"
    assert training(line + "\n").uses_framework is expected


# -- folding


def folded(condition: str) -> str:
    """What remains when `T` is known to be true and `F` to be false."""
    known = {"T": True, "F": False}
    residue = fold(ast.parse(condition, mode="eval").body, lambda node: known.get(getattr(node, "id", None)))
    if residue.constant is not None:
        return str(residue.constant)
    return residue.template.format(**{name: ast.unparse(part) for name, part in residue.holes.items()})


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("T", "True"),
        ("not T", "False"),
        ("not not T", "True"),
        ("a", "a"),
        ("not a", "not a"),
        ("a and T", "a"),
        ("T and a", "a"),
        ("a and F", "False"),
        ("a or T", "True"),
        ("a or F", "a"),
        ("T and T", "True"),
        ("F or F", "False"),
        ("a and T and b", "a and b"),
        ("a or b and T", "a or b"),
        ("(a or b) and T", "a or b"),
        ("(a or b) and T and c", "(a or b) and c"),
        ("not (a and T)", "not a"),
        ("not (a and F)", "True"),
        ("not (a and b and T)", "not (a and b)"),
        ("(a and T or b) and not F", "a or b"),
        ("a and (b or F) and (c or d) and T", "a and b and (c or d)"),
        ("(a or b) and (c or d or F) and (e or T)", "(a or b) and (c or d)"),
        ("a == 1 and T", "a == 1"),
        ("f(x) or not T", "f(x)"),
    ],
)
def test_folding(condition, expected):
    assert folded(condition) == expected


TRUTHS = ("a", "b", "T", "F")


@pytest.mark.parametrize(
    "condition",
    ["a and (b or not T)", "not (a or F) and b", "(a or b) and not (a and b and T)", "not (not a or not b) or F", "a or (T and b) or F"],
)
def test_folding_keeps_the_truth_of_every_case(condition):
    after = folded(condition)
    for a in (True, False):
        for b in (True, False):
            case = {"a": a, "b": b, "T": True, "F": False}
            assert bool(eval(condition, case)) == bool(eval(after, case))  # noqa: S307 - texts of this file


def test_the_outermost_condition_stops_at_what_is_no_condition():
    seen = module("if not (a and (b or c)) and f(d): pass\n")
    assert ast.unparse(outermost_condition(node_of(seen, "b"))) == "not (a and (b or c)) and f(d)"
    assert ast.unparse(outermost_condition(node_of(seen, "d"))) == "d"


# -- the project


def test_who_imports_whom():
    files = {
        "a.py": "from b import (\n    x,\n)\n", "b.py": "import pkg.c\n", "pkg/__init__.py": "", "pkg/c.py": "from . import d\n",
        "pkg/d.py": "import os\n", "alone.py": "import torch\n",
    }
    seen = project(files)
    paths = {name: seen.root / name for name in files}
    names = lambda found: {path.relative_to(seen.root).as_posix() for path in found}  # noqa: E731
    assert names(seen.files.files(seen.links.imported_by(paths["a.py"]))) >= {"b.py", "pkg/c.py", "pkg/d.py"}
    assert names(seen.importers(paths["pkg/d.py"])) == {"a.py", "b.py", "pkg/c.py"}
    assert names(seen.program(paths["alone.py"])) == {"alone.py"}


def test_a_program_is_on_a_device_wherever_it_says_so():
    files = {"config.py": "device = 'cuda'\n", MAIN: "from config import device\nopt.step()\n", "tool.py": "import torch\n"}
    seen = project(files)
    assert [seen.on_device(seen.root / name) for name in files] == [True, True, False]


@pytest.mark.parametrize(("text", "says"), [
    ("import torch  # pip install torch-cuda\nopt.step()\n", False),
    ("opt.step()\n# device = 'cuda'\n", False),
    ("colour = '#fff'; device = 'cuda'\n", True),
    ("# cuda\nx = 1  # cuda\nname = '# cuda'\n", True),
    ("# cuda\nx = (\n", True),
])
def test_a_comment_puts_no_program_on_a_device(text, says):
    seen = project(text)
    assert seen.on_device(seen.root / MAIN) is says


def test_a_file_that_does_not_parse_does_not_stop_the_others():
    files = {"broken.py": "def f(:\n    device = 'cuda'\n", MAIN: "from broken import device\nx.to(device)\n"}
    assert kind(files, "device") is Kind.UNKNOWN


def test_what_a_source_derives_is_made_again_after_release():
    source = module("x = 1\ny = 'ö'\n").source
    before = (source.lines, source.position(7), source.slice(0, 5))
    source.release()
    assert (source.lines, source.position(7), source.slice(0, 5)) == before


# -- patterns in texts

TEXTS = ["foo1\n", "bar2 cuda", "  CUDA\n#x\n 3", "", *(fence.text for rule in load.builtin() for fence in load.fences(rule.path))]
SEARCHED = [
    *dict.fromkeys(rule.match.text for rule in load.builtin() if rule.match.text),
    parallel.DDP, parallel.FSDP, parallel.DATA_PARALLEL, parallel.PORTED_SPMD,
    r"(?P<kind>foo|bar)\d", "3|foo", r"(?ms)^\s\d", "(?i)cuda|nccl", r"^#|x\Z", "a{0}b|c?uda", r"model\.(?!eval)\w+|(?<=\.)cuda",
]


@pytest.mark.parametrize("pattern", SEARCHED, ids=str)
def test_a_text_is_searched_as_its_pattern_says(pattern):
    """By words, part by part, and where another file of the project holds them."""
    whole = re.compile(pattern) if isinstance(pattern, str) else pattern
    asked = LazyPattern(pattern) if isinstance(pattern, str) else pattern
    matches = [whole.search(text) is not None for text in TEXTS]
    made = project({f"{number}.py": text for number, text in enumerate(TEXTS)})
    assert [finder(asked)(text) for text in TEXTS] == matches
    assert [made.says(ROOT / f"{number}.py", asked) for number in range(len(TEXTS))] == matches
