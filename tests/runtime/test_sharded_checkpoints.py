"""Checkpoints of sharded training: resuming on other meshes, after kills, and what is said of a bad one."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_sharding import QUICK

from xlaport.errors import UserError

torch = pytest.importorskip("torch")

from families import FAMILIES  # noqa: E402

from xlaport.runtime import fsdp  # noqa: E402
from xlaport.runtime.fsdp.store import MARKER, Store  # noqa: E402

HERE = Path(__file__).resolve().parent
STEP = re.compile(r"^step (\d+) loss (\S+) random (\S+)$", re.MULTILINE)
STEPS = 6
KILLS = 3
"""In the suite; bench/sharding.py kills 20 times."""


def start(url: str, steps: int, devices: int, **options) -> subprocess.Popen:
    env = {
        **os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "CPU_NUM_DEVICES": str(devices), "XLA_FLAGS": QUICK,
        "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE)]),
    }
    command = [sys.executable, str(HERE / "resuming_program.py"), url, str(steps), json.dumps(options)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(url: str, steps: int, devices: int, **options) -> str:
    process = start(url, steps, devices, **options)
    output, errors = process.communicate(timeout=1500)
    assert process.returncode == 0, errors[-3000:]
    return output


def seen(output: str) -> dict[int, tuple[float, float]]:
    """Loss and random number by step."""
    return {int(step): (float(loss), float(number)) for step, loss, number in STEP.findall(output)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, dict[int, tuple[float, float]]]:
    """Eight devices in copies, shards and parts of layers, saved in the middle, and every step that follows."""
    url = tmp_path_factory.mktemp("saved")
    output = run(str(url), STEPS, devices=8, mesh={"data": 2, "model": 2}, every=4, asynchronous=True)
    return url, seen(output)


def test_resumed_on_fewer_devices(undisturbed, tmp_path):
    url, wanted = undisturbed
    before = sorted(path.name for path in url.iterdir())
    for devices in (4, 1):
        exported = tmp_path / f"{devices}.safetensors"
        output = run(str(url), STEPS, devices=devices, every=100, export=str(exported))
        assert output.startswith("resumed 4\n")
        found = seen(output)
        assert set(found) == {4, 5}
        for step, (loss, number) in found.items():
            assert loss == pytest.approx(wanted[step][0], rel=1e-6)
            assert number == wanted[step][1]
    assert sorted(path.name for path in url.iterdir()) == before == ["step-00000004"]


def test_resumed_on_the_same_devices_is_exactly_the_same(tmp_path):
    """Killed at random moments of training and saving, to the last bit as if nothing had been."""
    url = str(tmp_path / "ckpt")
    wanted = seen(run(str(tmp_path / "other"), STEPS, devices=2))
    chance = random.Random(1)
    found: dict[int, tuple[float, float]] = {}
    for _ in range(KILLS):
        process = start(url, STEPS, devices=2, keep=2)
        first = process.stdout.readline()
        time.sleep(chance.uniform(0.0, 1.0))
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        found |= check(seen(first + output), wanted)
    found |= check(seen(run(url, STEPS, devices=2, keep=2)), wanted)
    assert fsdp.latest_step(url) == STEPS
    assert len(Store(url).complete()) == 2
    assert found


def check(found: dict, wanted: dict) -> dict:
    assert found == {step: wanted[step] for step in found}
    return found


def test_exported_from_a_checkpoint_without_torch_xla(undisturbed, tmp_path):
    url, _ = undisturbed
    code = (
        "import sys; from xlaport.runtime import fsdp; import torch; from pathlib import Path\n"
        f"fsdp.export({str(url)!r}, {str(tmp_path / 'm.safetensors')!r}); fsdp.export({str(url)!r}, {str(tmp_path / 'm.pt')!r})\n"
        "assert 'torch_xla' not in sys.modules, 'torch_xla was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(HERE.parents[1])}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    from safetensors.torch import load_file

    model = FAMILIES["gpt"].model()
    states = load_file(tmp_path / "m.safetensors"), torch.load(tmp_path / "m.pt", weights_only=True)
    for state in states:
        model.load_state_dict(state)
        assert torch.equal(state["head.weight"], state["tokens.weight"])
    assert not torch.equal(states[0]["tokens.weight"], FAMILIES["gpt"].model().tokens.weight)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.pt", "m.safetensors"]


@pytest.fixture
def saved(tmp_path, monkeypatch) -> tuple[torch.nn.Module, torch.optim.Optimizer, str]:
    """A small model on one device, saved twice."""
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    url = str(tmp_path / "ckpt")
    fsdp.save(model, optimizer, 1, url)
    fsdp.save(model, optimizer, 2, url)
    return model, optimizer, url


FIRST_FAILS = """
import sys
import torch.distributed as dist
from xlaport.errors import UserError
from xlaport.runtime.fsdp import checkpoint

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
print(checkpoint.first_only(lambda: "from " + str(dist.get_rank())))

def fails():
    raise OSError("no space left")

try:
    checkpoint.first_only(fails)
except (OSError, UserError) as error:
    print(type(error).__name__, error)
"""


def test_a_first_process_that_fails_tells_the_others(tmp_path):
    """Without it they wait in a collective, for ever."""
    command = [sys.executable, "-c", FIRST_FAILS]
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    started = [subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], env=env, stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
    try:
        outputs = [[line for line in process.communicate(timeout=200)[0].splitlines() if not line.startswith("[Gloo]")] for process in started]
    finally:
        for process in started:
            process.kill()
    assert outputs == [
        ["from 0", "OSError no space left"],
        ["from 0", "UserError save: the first process failed: OSError: no space left"],
    ]


def refused(*args, **options) -> str:
    with pytest.raises(UserError) as error:
        fsdp.load(*args, **options)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_another_model(saved):
    _, _, url = saved
    other = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 2), torch.nn.Linear(2, 2))
    text = refused(other, None, url)
    assert "step-00000002: a checkpoint of another model" in text
    assert "it has no 2.weight" in text and "0.weight is float32 [3, 4] in it and float32 [5, 4] in the model" in text and "more" in text


def test_half_a_checkpoint(saved):
    model, optimizer, url = saved
    newest = Path(url) / "step-00000002"
    (newest / MARKER).unlink()
    assert fsdp.load(model, optimizer, url).step == 1
    assert refused(model, optimizer, url, step=2) == f"{newest}: not complete; its saving was interrupted"
    assert refused(model, optimizer, url, step=7) == f"{url}: no checkpoint of step 7; there are 1"


def test_a_file_cut_short_or_missing(saved):
    model, optimizer, url = saved
    file = Path(url) / "step-00000002" / "__0_0.distcp"
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    assert f"__0_0.distcp has {len(content) - 10} bytes, and {len(content)} were written" in refused(model, optimizer, url)
    file.unlink()
    assert "__0_0.distcp is missing" in refused(model, optimizer, url)


def test_no_checkpoint(tmp_path, saved):
    model, optimizer, _ = saved
    assert fsdp.latest_step(tmp_path / "nothing") is None
    assert refused(model, optimizer, tmp_path / "nothing") == f"{tmp_path / 'nothing'}: no such directory"
    assert "Protocol not known" in refused(model, optimizer, "nowhere://x")
    (tmp_path / "file").write_text("")
    assert "not a directory" in refused(model, optimizer, tmp_path / "file")


def test_another_optimizer(saved):
    model, _, url = saved
    other = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[1].parameters()}], 0.1)
    assert "the optimizer's group 0 (2 parameters, the first 0.weight) is not among the 1 groups that were saved" in refused(model, other, url)
    foreign = torch.optim.SGD([torch.nn.Parameter(torch.zeros(7))], 0.1)
    assert "group 0 has a parameter of shape [7] that Sequential does not have" in refused(model, foreign, url)
    fsdp.save(model, None, 3, url)
    assert "saved without an optimizer" in refused(model, torch.optim.SGD(model.parameters(), 0.1), url)


def test_a_step_saved_again_replaces_the_first_when_it_is_complete(saved):
    model, optimizer, url = saved
    fsdp.save(model, optimizer, 2, url)
    assert [entry.name for entry in Store(url).all()] == ["step-00000001", "step-00000002.1"]
    assert fsdp.load(model, optimizer, url).step == 2


def test_an_interrupted_save_leaves_no_trace_after_the_next(saved, monkeypatch):
    import torch.distributed.checkpoint as dcp

    model, optimizer, url = saved

    def fail(*args, **kwargs):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(dcp, "save", fail)
        with pytest.raises(OSError, match="No space"):
            fsdp.save(model, optimizer, 3, url)
        fsdp.save(model, optimizer, 3, url, asynchronous=True)
        with pytest.raises(OSError, match="No space"):
            fsdp.latest_step(url)
    assert fsdp.latest_step(url) == 2
    fsdp.save(model, optimizer, 3, url)
    assert sorted(path.name for path in Path(url).iterdir()) == ["step-00000001", "step-00000002", "step-00000003"]


def test_a_last_save_that_fails_is_told_at_the_end_of_the_program(tmp_path):
    (tmp_path / "taken").write_text("no directory")
    text = (
        "import sys, torch\nfrom xlaport.runtime import fsdp\nmodel = torch.nn.Linear(2, 2)\n"
        "fsdp.save(model, None, 1, sys.argv[1], asynchronous=True)\nprint('the end')\n"
    )
    env = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "PYTHONPATH": str(HERE.parents[1])}
    result = subprocess.run([sys.executable, "-c", text, str(tmp_path / "taken")], env=env, capture_output=True, text=True, timeout=120)
    assert result.stdout == "the end\n"
    assert "UserError" in result.stderr and "not a directory of checkpoints" in result.stderr


def test_in_memory_and_with_values_of_ones_own(saved):
    model, optimizer, _ = saved
    url = "memory://runs/one"
    weight = model[0].weight.detach().clone()
    fsdp.save(model, optimizer, 5, url, extra={"best": 0.5, "table": torch.arange(3)}, keep=1)
    fsdp.save(model, optimizer, 6, url, extra={"best": 0.25}, keep=1)
    with torch.no_grad():
        model[0].weight.zero_()
    resumed = fsdp.load(model, optimizer, url)
    assert (resumed.step, resumed.extra) == (6, {"best": 0.25})
    assert torch.equal(model[0].weight, weight)
    assert [entry.step for entry in Store(url).complete()] == [6]
    with pytest.raises(UserError, match="extra holds what torch.load does not read back"):
        fsdp.save(model, optimizer, 7, url, extra={"path": Store(url)})
    assert fsdp.latest_step(url) == 6


def test_export_says_what_it_can_write(saved, tmp_path):
    with pytest.raises(UserError, match="must end with .safetensors, .pt"):
        fsdp.export(saved[0], tmp_path / "model.onnx")
