"""`xlaport verify` on programs that run: right ports match, planted faults are called and found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = Path(__file__).with_name("verified.py")
DATA_PARALLEL = Path(__file__).with_name("verified_ddp.py")
SHARDED = Path(__file__).with_name("verified_fsdp.py")
TWO_OPTIMIZERS = Path(__file__).with_name("verified_gan.py")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ported(ORIGINAL, tmp_path_factory.mktemp("port"))


@pytest.fixture(scope="module")
def data_parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ported(DATA_PARALLEL, tmp_path_factory.mktemp("ddp"))


def ported(original: Path, folder: Path) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_bytes(original.read_bytes())
    assert xlaport("migrate", folder / "src", "--out", folder / "out").returncode == 0
    return folder / "out" / "train.py"


def xlaport(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "xlaport", *map(str, arguments)], env=environment, capture_output=True, text=True)


def verified(port: Path, *arguments: object, original: Path = ORIGINAL) -> dict:
    done = xlaport("verify", port, "--original", original, "--json", *arguments)
    assert done.stdout, done.stderr
    return {**json.loads(done.stdout), "status": done.returncode}


def faulty(port: Path, folder: Path, old: str, new: str) -> Path:
    text = port.read_text(encoding="utf-8")
    assert old in text
    result = folder / "faulty.py"
    result.write_text(text.replace(old, new), encoding="utf-8")
    return result


def test_a_right_port_with_dropout_matches(port: Path):
    found = verified(port)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]
    assert len(found["steps"]) == 20 and max(row["deviation"] for row in found["steps"]) < 1e-5
    assert found["performance"]["launched"] >= 19 and found["performance"]["late"] == []
    assert found["carried"]["pinned memory"] == 1
    half = next(curve for curve in found["curves"] if curve["name"] == "half")
    assert half["base"] == pytest.approx([row["cpu"] / 2 for row in found["steps"]])


def test_the_unported_program_carried_to_xla_matches_in_lockstep():
    done = xlaport("verify", ORIGINAL, "--lockstep", "--json", "--steps", "8")
    found = json.loads(done.stdout)
    assert found["verdict"] == "MATCH", found
    assert len(found["lockstep"]) == 8 and all(row["start"] == 0 for row in found["lockstep"])


def test_a_fault_in_one_layer_is_called_and_found(port: Path, tmp_path: Path):
    found = verified(faulty(port, tmp_path, "self.last(x)", "self.last(x.bfloat16().float())"), "--bisect")
    assert (found["verdict"], found["status"], found["first"]) == ("DIVERGED", 1, 0)
    assert (found["origin"]["where"], found["origin"]["direction"]) == ("last", "forward")


def test_a_step_that_does_not_end_is_no_success(port: Path, tmp_path: Path):
    found = verified(faulty(port, tmp_path, "xm.optimizer_step(optimizer, barrier=True)", "xm.optimizer_step(optimizer)"), "--steps", "6")
    assert found["performance"]["no_step_end"] and found["status"] == 1


def test_replicas_match_processes(data_parallel: Path):
    found = verified(data_parallel, "--replicas", "2", "--steps", "4", original=DATA_PARALLEL)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]
    assert [row["step"] for row in found["steps"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found["steps"][0]["cpu"] != found["steps"][1]["cpu"]  # each rank has data of its own


def test_replicas_stop_between_steps_that_one_launch_makes(tmp_path: Path):
    found = verified(ported(TWO_OPTIMIZERS, tmp_path), "--replicas", "2", "--steps", "2", original=TWO_OPTIMIZERS)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]


def test_a_sharded_port_matches_one_process(tmp_path: Path):
    found = verified(ported(SHARDED, tmp_path), "--devices", "2", "--steps", "3", original=SHARDED)
    assert (found["verdict"], found["status"]) == ("MATCH", 0), found["reasons"]
    done = xlaport("verify", SHARDED, "--devices", "2", "--replicas", "2")
    assert done.returncode == 2 and "give one of them" in done.stderr


def test_gradients_that_no_replica_reduces_are_called(data_parallel: Path, tmp_path: Path):
    alone = faulty(data_parallel, tmp_path, "xm.optimizer_step(optimizer, barrier=True)", "optimizer.step(); torch_xla.sync()")
    found = verified(alone, "--replicas", "2", "--steps", "4", original=DATA_PARALLEL)
    assert (found["verdict"], found["first"]) == ("DIVERGED", 0)


def test_a_program_that_crashes_is_told_with_its_own_traceback(port: Path):
    done = xlaport("verify", port, "--original", ORIGINAL, "--", "--end", "crash")
    assert done.returncode == 2
    assert done.stderr.rstrip().splitlines()[-1].startswith("xlaport: the original could not run: ValueError: the data are not there at ")
    assert "Traceback (most recent call last)" in done.stderr and done.stdout == ""


def test_a_program_that_hangs_is_ended(port: Path):
    started = time.monotonic()
    done = xlaport("verify", port, "--original", ORIGINAL, "--limit", "8", "--", "--end", "hang")
    assert done.returncode == 2 and "still running after" in done.stderr
    assert time.monotonic() - started < 60
    listed = subprocess.run(["pgrep", "-f", str(port)], capture_output=True, text=True)
    assert listed.stdout == ""


GROUP = """
import socket, sys, torch.distributed as dist
from xlaport.runtime.inside import ports
from xlaport.runtime.launcher import free_port
taken = socket.socket()
taken.bind(("127.0.0.1", 0))
taken.listen()
if sys.argv[1] == "moved":
    ports.install(free_port())
address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
try:
    dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)
    print(dist.get_world_size())
except dist.DistNetworkError:
    print("taken")
"""


@pytest.mark.parametrize("where, said", [("moved", "1"), ("as named", "taken")])
def test_runs_side_by_side_do_not_want_the_same_port(tmp_path, where, said):
    script = tmp_path / "group.py"
    script.write_text(GROUP)
    done = subprocess.run([sys.executable, script, where], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1:] == [said], done.stderr  # gloo prints, too
