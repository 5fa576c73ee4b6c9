"""Spellings of streams, events, memory, profiling and libraries that a rule's own page does not show."""

from __future__ import annotations

import pytest
import support
from support import MAIN, ROOT

from xlaport import engine
from xlaport.config import Settings
from xlaport.findings import Danger


def migrated(text: str, *codes: str) -> str:
    return support.migrated(text, select=codes)


def findings(files: str | dict[str, str], code: str, name: str = MAIN):
    return [f for f in engine.findings_in(support.project(files), ROOT / name, Settings()) if f.code == code]


@pytest.mark.parametrize(
    "before, after",
    [
        ("import torch.cuda as c\nc.synchronize()\n", "torch_xla.sync(wait=True)"),
        ("from torch.cuda import synchronize as s\ns()\n", "torch_xla.sync(wait=True)"),
        ("from torch import cuda\ncuda.synchronize(0)\n", "torch_xla.sync(wait=True)"),
        ("import torch as th\ngetattr(th.cuda, 'synchronize')()\n", "torch_xla.sync(wait=True)"),
        ("import torch\nif ready: torch.cuda.synchronize(); run()\n", "if ready: torch_xla.sync(wait=True); run()"),
        ("import torch\ntorch.cuda.synchronize() if ready else None\n", "torch_xla.sync(wait=True) if ready else None"),
        ("import torch\nwait = torch.cuda.synchronize if ready else print\n", "wait = (lambda *_: torch_xla.sync(wait=True)) if ready else print"),
    ],
)
def test_synchronize(before, after):
    assert after in migrated(before, "XP120").splitlines()


@pytest.mark.parametrize(
    "text, key",
    [
        ('f"{torch.cuda.memory_allocated() / 2**20}"', "['bytes_used']"),
        ("f'{torch.cuda.memory_allocated() / 2**20}'", '["bytes_used"]'),
        ('f"""{torch.cuda.memory_allocated() / 2**20:.1f}"""', "['bytes_used']"),
        ('"{}".format(torch.cuda.max_memory_allocated())', '["peak_bytes_used"]'),
    ],
)
def test_quotes_inside_fstrings(text, key):
    done = migrated(f"import torch\nx = {text}\n", "XP123")
    compile(done, MAIN, "exec")
    assert key in done and "torch.cuda" not in done


def test_one_with_loses_a_stream_and_keeps_the_rest():
    text = "import torch\ns = torch.cuda.Stream()\nwith torch.no_grad(), torch.cuda.stream(s):\n    x = 1\n"
    assert migrated(text, "XP130") == "import torch\nwith torch.no_grad():\n    x = 1\n"


def test_streams_of_a_file_go_together():
    text = "import torch\ns = torch.cuda.Stream()\nkernel(s)\nwith torch.cuda.stream(s):\n    x = 1\n"
    assert migrated(text, "XP130") == text


def test_other_accelerators_keep_their_streams():
    text = "import torch\ntorch.cuda.set_stream(None)\ntorch.npu.current_stream().wait_stream(s)\n"
    assert migrated(text, "XP130") == "import torch\ntorch.npu.current_stream().wait_stream(s)\n"


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfrom time import time\na = torch.cuda.Event()\nb = torch.cuda.Event()\na.record()\nb.record()\nprint(a.elapsed_time(b), time())\n",
        "import torch\ndef f():\n    a = torch.cuda.Event()\n    def g():\n        a.record()\n    return g\n",
        "import torch\ndef f(b):\n    a = torch.cuda.Event()\n    a.record()\n    return a.elapsed_time(b)\n",
    ],
)
def test_events_that_are_left(text):
    assert [finding.fix for finding in findings(text, "XP129")] in ([None], [None, None])


def test_difference_of_events_keeps_its_place():
    text = "import torch\na = torch.cuda.Event()\nb = torch.cuda.Event()\na.record()\nb.record()\nrate = 1 / a.elapsed_time(b)\n"
    assert "rate = 1 / ((b - a) * 1000)" in migrated(text, "XP129").splitlines()


@pytest.mark.parametrize("name", ["RWKV_CUDA_ON", "USE_CUDA", "MY_NCCL_FLAG"])
def test_variables_of_the_program_stay(name):
    text = f"import os, torch\nos.environ[{name!r}] = '1'\n"
    assert migrated(text, "XP139") == text


def test_a_variable_another_file_reads_stays():
    files = {
        MAIN: "import os, torch\nimport other\nos.environ['NCCL_DEBUG'] = 'INFO'\n",
        "other.py": "import os\nlevel = os.environ.get('NCCL_DEBUG')\n",
    }
    assert [finding.fix for finding in findings(files, "XP139")] == [None]


# -- libraries


def test_a_folder_of_the_project_is_no_library():
    files = {MAIN: "import triton.client\ntriton.client.run()\n", "triton/client.py": "def run(): ...\n"}
    assert not findings(files, "XP915")


def test_a_file_of_a_package_does_not_hide_the_library():
    files = {"pkg/__init__.py": "", "pkg/deepspeed.py": "", "pkg/use.py": "import deepspeed\ndeepspeed.initialize()\n"}
    assert [f.location.line for f in findings(files, "XP914", "pkg/use.py")] == [1, 2]


def test_a_guarded_import_is_a_note():
    text = "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
    assert [f.danger for f in findings(text, "XP910")] == [Danger.NONE]


def test_a_guard_that_raises_again_guards_nothing():
    text = "try:\n    from apex import amp\nexcept ImportError:\n    raise ImportError('install apex')\n"
    assert [f.danger for f in findings(text, "XP910")] == [Danger.LOUD]


def test_a_kernel_is_named_once():
    text = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(x):\n    a = tl.load(x)\n    b = tl.load(x)\n    tl.store(x, a + b)\n"
    assert [f.location.line for f in findings(text, "XP915")] == [1, 2, 4, 6]


def test_the_message_is_of_the_longest_name():
    text = "import apex\napex.optimizers.FusedAdam([])\napex.optimizers.FusedUnknown([])\n"
    messages = [f.message for f in findings(text, "XP910")]
    assert "AdamW" in messages[1] and "AdamW" not in messages[2]
