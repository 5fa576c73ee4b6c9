"""Replicas that take turns on XLA:CPU are data-parallel training: as one device with the global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport.errors import UserError
from xlaport.runtime import launcher, replicas

HERE = Path(__file__).resolve().parent
COUNT = 2


@pytest.fixture(scope="module")
def seen() -> dict:
    env = {**os.environ, **replicas.environment(COUNT), "PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"}
    child = subprocess.run([sys.executable, HERE / "replica_program.py"], env=env, capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr[-2000:]
    return json.loads(child.stdout.splitlines()[-1])


def mean(values: list[list[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*values)]


def test_losses_gradients_and_updates_are_those_of_the_global_batch(seen):
    right, alone = seen["right"], seen["alone"]
    assert len(right) == COUNT
    assert mean([rank["losses"] for rank in right]) == pytest.approx(alone["losses"], rel=1e-5, abs=1e-6)
    for rank in right:
        for step, gradients in enumerate(rank["gradients"]):
            assert gradients == pytest.approx(alone["gradients"][step], rel=1e-4, abs=1e-6)
        assert rank["weights"] == pytest.approx(alone["weights"], rel=1e-4, abs=1e-5)


def test_without_the_reduction_replicas_drift(seen):
    drifting = mean([rank["losses"] for rank in seen["drifting"]])
    assert max(abs(a - b) for a, b in zip(drifting, seen["alone"]["losses"])) > 1e-2
    assert seen["drifting"][0]["weights"] != seen["drifting"][1]["weights"]


def test_an_accumulated_gradient_is_averaged_where_it_has_storage_of_its_own(seen):
    """torch_xla 2.9: without, the clip takes the gradient as it was before. XP201 rests on it."""
    wanted = -0.1 * sum(6.0 * (rank + 1) for rank in range(COUNT)) / COUNT
    assert seen["accumulated"]["fresh"] == pytest.approx([wanted] * COUNT)
    assert seen["accumulated"]["in place"] == pytest.approx([-0.6 * (rank + 1) for rank in range(COUNT)])


def test_each_replica_has_groups_and_random_numbers_of_its_own(seen):
    total = sum(range(COUNT))
    for rank, replica in enumerate(seen["exchange"]):
        assert replica["found"] == [[other, total] for other in range(COUNT)]
        assert replica["random"] == seen["random"][rank]
        assert replica["sum"] == total


def test_a_replica_may_wait_for_its_launches(seen):
    assert seen["waiting"] == [3.0 * COUNT] * COUNT


def test_a_replica_that_fails_ends_the_others(seen):
    assert seen["failure"] == "rank 1 fails"


def test_launch_of_a_program_starts_replicas(seen):
    assert sorted(seen["launched"]) == [[rank, ["given"]] for rank in range(COUNT)]


def test_a_script_that_torchrun_starts_is_run_by_each_replica():
    env = {**os.environ, **replicas.environment(COUNT)}
    script = Path(launcher.__file__), HERE / "launched_program.py", "--flag"
    child = subprocess.run([sys.executable, *script], env=env, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr[-2000:]
    wanted = [f"rank {rank} of {COUNT} sum {float(sum(range(COUNT)))} given --flag" for rank in range(COUNT)]
    assert sorted(line for line in child.stdout.splitlines() if line.startswith("rank")) == wanted


def test_no_replicas():
    with pytest.raises(UserError, match="0 replicas"):
        replicas.environment(0)


def test_environment_is_asked_for(monkeypatch):
    monkeypatch.setenv("CPU_NUM_DEVICES", "4")
    monkeypatch.delenv("PJRT_CPU_ASYNC_CLIENT", raising=False)
    with pytest.raises(UserError, match="PJRT_CPU_ASYNC_CLIENT"):
        replicas.device_count()
