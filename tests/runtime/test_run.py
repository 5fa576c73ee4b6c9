"""CUDA programs under `xlaport run`: idioms, one by one, and whole programs, on the CPU and on XLA."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from xlaport.runtime.launcher import free_port
from xlaport.runtime.program import ROOT

IDIOMS = Path(__file__).with_name("cuda_idioms.py")
SAMPLES = ROOT / "sample_models"
NAMES = [
    node.name
    for node in ast.parse(IDIOMS.read_text()).body
    if isinstance(node, ast.FunctionDef) and not node.args.args and not node.args.vararg and node.name not in ("main", "model")
]
DEVICES = ("cpu", "xla")
ENVIRONMENT = {"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "XLA_FLAGS": "--xla_backend_optimization_level=0", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    told: list[str]
    """Lines that are xlaport's."""


def xlaport_run(folder: Path, device: str, *words: str, **environment: str) -> Result:
    command = [sys.executable, "-m", "xlaport", "run", "--device", device, "--limit", "240", *words]
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return Result(done.returncode, done.stdout, [line for line in done.stderr.splitlines() if line.startswith("xlaport: ")] or done.stderr.splitlines()[-5:])


def written(folder: Path, code: str) -> str:
    (folder / "train.py").write_text(textwrap.dedent(code))
    return "train.py"


TRAINING = """
    import sys, torch
    from torch import nn
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step():
        loss = model(torch.ones(8, 4, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module", params=DEVICES)
def outcomes(request, tmp_path_factory) -> dict[str, str]:
    """Name of an idiom -> "ok", or its error."""
    result = xlaport_run(tmp_path_factory.mktemp(request.param), request.param, str(IDIOMS))
    assert result.code == 0, result.told
    return dict(json.loads(line) for line in result.out.splitlines() if line.startswith('["'))


@pytest.mark.parametrize("name", NAMES)
def test_idiom(outcomes, name):
    if name.startswith("refused_"):
        assert outcomes[name].startswith("CannotCarry: ")
    else:
        assert outcomes[name] == "ok"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sample", ["amp_classifier.py", "imagenet_ddp/main.py"])
def test_sample_models_run_unmodified(tmp_path, device, sample):
    words = ["--multiprocessing-distributed", "--seed", "1", "--dist-url", f"tcp://127.0.0.1:{free_port()}"] if "ddp" in sample else []
    result = xlaport_run(tmp_path, device, "--steps", "3", str(SAMPLES / sample), "--", *words)
    assert result.code == 0, result.told
    assert result.told[0].startswith(f"xlaport: carried to {device}: ")
    assert result.told[1].startswith("xlaport: 3 steps, 3 losses, first ")


def test_it_stops_after_the_steps(tmp_path):
    script = written(tmp_path, TRAINING + "    for i in range(10): step()\n    print('not reached')")
    result = xlaport_run(tmp_path, "cpu", "--steps", "4", script)
    assert (result.code, result.out) == (0, "")
    assert result.told == ["xlaport: carried to cpu: 4 device arguments, 2 moves", next(line for line in result.told if "4 steps, 4 losses" in line)]


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n        try: step()\n        except BaseException: pass",
        "import threading\n    def loop():\n        while True: step()\n    threading.Thread(target=loop).start()",
        "try:\n        while True: step()\n    finally: sys.exit(5)",
    ],
    ids=["catches-everything", "in-a-thread", "exits-by-itself"],
)
def test_it_stops_whatever_the_program_does(tmp_path, loop):
    result = xlaport_run(tmp_path, "cpu", "--steps", "3", written(tmp_path, TRAINING + "    " + loop))
    assert result.code == 0
    assert any("3 steps, 3 losses" in line for line in result.told)


def test_its_own_end_and_output_go_through(tmp_path):
    script = written(tmp_path, TRAINING + "    step()\n    print(sys.argv[1:], model.weight.device)\n    sys.exit(7)")
    result = xlaport_run(tmp_path, "cpu", script, "--", "--device", "cuda", "--steps", "1")
    assert (result.code, result.out) == (7, "['--device', 'cuda', '--steps', '1'] cuda:0\n")
    assert result.told[-1] == "xlaport: the program ended with exit status 7"


def test_an_error_is_told_with_its_place(tmp_path):
    result = xlaport_run(tmp_path, "cpu", written(tmp_path, TRAINING + "    model(torch.ones(3).cuda())"))
    assert result.code == 1
    assert result.told[-1].startswith("xlaport: the program ended with RuntimeError: ")
    assert result.told[-1].endswith(f" at {tmp_path}/train.py:11")


def test_what_only_cuda_has_is_told(tmp_path):
    result = xlaport_run(tmp_path, "cpu", written(tmp_path, "import torch\ntorch.cuda.CUDAGraph()"))
    assert result.code == 1
    assert result.told[-1] == f"xlaport: the program ended with CannotCarry: torch.cuda.CUDAGraph records CUDA kernels and has no form on another device at {tmp_path}/train.py:2"


def test_the_names_cuda_has_are_classes_still(tmp_path):
    script = written(tmp_path, """
        import torch
        def replay(graph: torch.cuda.CUDAGraph | None, stream: torch.cuda.Stream | None, event: torch.cuda.Event | None): ...
        class Graph(torch.cuda.CUDAGraph): ...
        print(isinstance(1, torch.cuda.CUDAGraph), issubclass(Graph, torch.cuda.CUDAGraph))
    """)
    result = xlaport_run(tmp_path, "cpu", script)
    assert (result.code, result.out) == (0, "False True\n"), result.told


LOOKS = """
    import importlib.util
    try:
        import torch_xla.core.xla_model as xm
    except ImportError:
        xm = None
    print(xm is not None, importlib.util.find_spec("torch_xla") is not None)
"""


@pytest.mark.parametrize("device, finds", [("cpu", "False False"), ("xla", "True True")])
def test_a_library_finds_torch_xla_only_where_the_program_runs_on_it(tmp_path, device, finds):
    assert xlaport_run(tmp_path, device, written(tmp_path, TRAINING + LOOKS + "    step()")).out == finds + "\n"


def test_a_port_is_not_for_the_cpu(tmp_path):
    result = xlaport_run(tmp_path, "cpu", written(tmp_path, "import torch\nimport torch_xla.core.xla_model as xm\n"))
    assert result.code == 1
    assert "import of torch_xla, which is hidden" in result.told[-1]


RANKS = """
    import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
    from torch import nn
    def worker(rank, world):
        dist.init_process_group("nccl", rank=rank, world_size=world)
        torch.cuda.set_device(rank)
        model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2)).cuda(rank), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        both = torch.arange(16.0).reshape(8, 2)
        loss = model(both[rank * 4 : rank * 4 + 4].to(rank)).pow(3).sum()
        loss.backward()
        optimizer.step()
        expected = nn.BatchNorm1d(2)
        expected(both)
        assert torch.allclose(model.module.running_var.cpu(), expected.running_var) and loss.device == torch.device("cuda", rank)
        if rank == 1 and "fail" in sys.argv:
            raise ValueError("bad batch")
        dist.barrier()
        dist.destroy_process_group()
"""
SPAWNED = """
    if __name__ == "__main__":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
        mp.spawn(worker, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""
LAUNCHED = """
    worker(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
"""


@pytest.mark.parametrize("main", [SPAWNED, LAUNCHED], ids=["mp.spawn", "torchrun"])
def test_two_processes_of_gloo(tmp_path, main):
    result = xlaport_run(tmp_path, "cpu", "--replicas", "2", written(tmp_path, RANKS + main), "--", str(free_port()))
    assert result.code == 0, result.told
    assert "SyncBatchNorm" in result.told[0]
    assert result.told[1].startswith("xlaport: 1 step, 1 loss")


def test_the_rank_that_failed_is_told(tmp_path):
    result = xlaport_run(tmp_path, "cpu", "--replicas", "2", written(tmp_path, RANKS + LAUNCHED), "--", "fail")
    assert result.code == 1
    assert "ended with ValueError: bad batch at " in result.told[-1]
