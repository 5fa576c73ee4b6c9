"""`xlaport doctor`: each check on a machine made for it, the table of versions, and no hang without a network."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from xlaport import cli
from xlaport.doctor import chips, device, examination, machine, variables, versions
from xlaport.doctor.check import Check, Status, Surroundings

GOOD = {"torch": "2.9.0+cpu", "torch_xla": "2.9.0", "libtpu": "0.0.21"}


def surroundings(root: Path = Path("/nowhere"), installed: dict[str, str] = GOOD, number: tuple[int, int] = (3, 11), **environment: str) -> Surroundings:
    return Surroundings(Path(sys.executable), number, environment, installed, root, seconds=5)


def statuses(checks) -> dict[str, Status]:
    return {check.name: check.status for check in checks}


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="ascii")


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({}, "versions.torch", Status.OK),
        ({"torch": "2.10.0"}, "versions.torch", Status.ERROR),
        ({"torch": "2.8.1+cpu"}, "versions.torch", Status.ERROR),
        ({"libtpu": "0.0.52"}, "versions.libtpu", Status.ERROR),
        ({"jax": "0.10.2"}, "versions.jax", Status.WARNING),
        ({"torch_xla": "2.8.0"}, "versions", Status.WARNING),
    ],
)
def test_versions_that_belong_together(change: dict[str, str], name: str, status: Status):
    assert statuses(versions.check_together(surroundings(installed=GOOD | change)))[name] is status


@pytest.mark.parametrize(("torch", "status"), [("2.9.0", Status.ERROR), ("2.11.0", Status.OK), ("2.15.1", Status.OK), ("2.16.0", Status.ERROR)])
def test_torch_tpu_wants_its_own_torch(torch: str, status: Status):
    installed = {"torch": torch, "torch_tpu": "0.2.0", "libtpu": "0.0.52", "numpy": "2.3.5"}
    assert statuses(versions.check_together(surroundings(installed=installed)))["versions.torch"] is status


def test_both_backends_are_an_error_and_none_is():
    assert statuses(versions.check_backend(surroundings(installed=GOOD | {"torch_tpu": "0.2.0"}))) == {"backend": Status.ERROR}
    assert statuses(versions.check_backend(surroundings(installed={}))) == {"backend": Status.ERROR}
    assert statuses(versions.check_backend(surroundings())) == {"backend": Status.OK}


def test_cuda_wheels_and_old_pythons():
    assert statuses(versions.check_cuda_wheels(surroundings(installed={"torch": "2.9.0", "nvidia_cudnn_cu12": "9"}))) == {"cuda_wheels": Status.WARNING}
    assert statuses(versions.check_cuda_wheels(surroundings())) == {"cuda_wheels": Status.OK}
    assert statuses(versions.check_python(surroundings(number=(3, 9)))) == {"python": Status.ERROR}


def test_the_table_has_sources_and_dates():
    table = versions.table()
    assert all(entry["source"] and entry["date"] for entry in [*table["sets"], *table["apart"]])


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("XLA_USE_BF16", "1", Status.WARNING), ("XLA_FLAGS", " --xla_dump_to=/tmp/x", Status.WARNING), ("TPU_VISIBLE_CHIPS", "1,2", Status.WARNING), ("XLA_USE_BF16", "0", None), ("XLA_USE_BF16", "", None)],
)
def test_variables_that_change_results(name: str, value: str, status: Status | None):
    assert statuses(variables.check_variables(surroundings(**{name: value}))).get(name) is status


def test_device_choice_and_workers():
    assert statuses(variables.check_device_choice(surroundings(PJRT_DEVICE="CUDA"))) == {"PJRT_DEVICE": Status.ERROR}
    assert statuses(variables.check_device_choice(surroundings(PJRT_DEVICE="TPU"))) == {"PJRT_DEVICE": Status.OK}
    bad = surroundings(TPU_WORKER_HOSTNAMES="WARNING: could not determine TPU worker hostnames")
    assert statuses(variables.check_worker_variables(bad)) == {"TPU_WORKER_HOSTNAMES": Status.ERROR}
    assert statuses(variables.check_worker_variables(surroundings(TPU_WORKER_HOSTNAMES="a,b", TPU_WORKER_ID="2"))) == {"TPU_WORKER_ID": Status.ERROR}
    assert statuses(variables.check_worker_variables(surroundings(TPU_WORKER_HOSTNAMES="a,b", TPU_WORKER_ID="1"))) == {"TPU_WORKER_HOSTNAMES": Status.OK}


def test_memory_is_the_smaller_of_kernel_and_container(tmp_path: Path):
    write(tmp_path / "proc/meminfo", "MemTotal: 99 kB\nMemAvailable:   33554432 kB\n")
    assert statuses(machine.check_memory(surroundings(tmp_path))) == {"memory": Status.OK}
    write(tmp_path / "sys/fs/cgroup/memory.max", "3221225472\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", "1073741824\n")
    assert machine.available(surroundings(tmp_path)) == 2 * 2**30
    assert statuses(machine.check_memory(surroundings(tmp_path))) == {"memory": Status.WARNING}


def test_cache_that_cannot_be_written(tmp_path: Path):
    assert statuses(machine.check_cache(surroundings(tmp_path, XLA_PERSISTENT_CACHE_PATH="/none"))) == {"compilation_cache": Status.WARNING}
    (tmp_path / "kept").mkdir()
    assert statuses(machine.check_cache(surroundings(tmp_path, XLA_PERSISTENT_CACHE_PATH="/kept"))) == {"compilation_cache": Status.OK}
    assert statuses(machine.check_shared_memory(surroundings(tmp_path))) == {"shared_memory": Status.WARNING}


@pytest.fixture
def tpu(tmp_path: Path) -> Path:
    """The root of a machine with two chips."""
    for number in range(2):
        folder = tmp_path / f"sys/bus/pci/devices/0000:00:0{number}.0"
        write(folder / "vendor", "0x1ae0\n")
        write(folder / "device", "0x0063\n")
        write(tmp_path / f"dev/vfio/{number}")
    return tmp_path


def test_chips_and_their_files(tpu: Path):
    assert chips.count(surroundings(tpu)) == 2
    assert statuses(chips.check_chips(surroundings(tpu))) == {"chips": Status.OK}
    assert statuses(chips.check_chips(surroundings(tpu, PJRT_DEVICE="CPU")))["PJRT_DEVICE"] is Status.WARNING
    assert statuses(chips.check_chips(surroundings(tpu, installed={"torch_xla": "2.9.0"})))["libtpu"] is Status.ERROR
    for file in chips.device_files(surroundings(tpu)):
        file.unlink()
    assert statuses(chips.check_chips(surroundings(tpu))) == {"chips": Status.ERROR}


def test_who_holds_the_lock(tpu: Path):
    assert statuses(chips.check_lock(surroundings(tpu))) == {"lock": Status.OK}
    write(tpu / "tmp/libtpu_lockfile")
    assert statuses(chips.check_lock(surroundings(tpu))) == {"lock": Status.WARNING}
    write(tpu / "proc/4321/comm", "python3\n")
    (tpu / "proc/4321/fd").mkdir()
    (tpu / "proc/4321/fd/7").symlink_to(tpu / "dev/vfio/0")
    held, = chips.check_lock(surroundings(tpu))
    assert held.status is Status.ERROR and "4321 (python3)" in held.said and held.mend.endswith("kill 4321")


def test_metadata_server_that_never_answers():
    """Connections are taken and nothing is said: the question ends by itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        started = time.monotonic()
        found = statuses(chips.check_metadata(surroundings(GCE_METADATA_HOST=host)))
    assert found == {"metadata": Status.WARNING}
    assert time.monotonic() - started < 30
    assert statuses(chips.check_metadata(surroundings(GCE_METADATA_HOST="127.0.0.1:9", TPU_SKIP_MDS_QUERY="1"))) == {"metadata": Status.OK}


def test_question_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    """As the lookup of a name may, whatever limit the connection has."""
    ended = threading.Event()
    monkeypatch.setattr(chips, "question", lambda host, answers: ended.wait(20))
    monkeypatch.setattr(chips, "WAIT_SECONDS", 0.1)
    started = time.monotonic()
    assert chips.ask_metadata("nowhere") == {}
    assert time.monotonic() - started < 10
    ended.set()


@pytest.mark.parametrize(("found", "is_tried"), [(Status.OK, True), (Status.WARNING, True), (Status.ERROR, False)])
def test_device_is_not_tried_after_an_error(found: Status, is_tried: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examination, "CHECKS", (lambda here: iter([Check("a", found, "said")]), lambda here: iter([Check("b", Status.OK, "said")])))
    monkeypatch.setattr(device, "check_device", lambda here: iter([Check("device", Status.OK, "said")]))
    assert [check.name for check in examination.examine(surroundings())] == ["a", "b", *(["device"] if is_tried else [])]
    assert [check.name for check in examination.examine(surroundings(), run_device=False)] == ["a", "b"]


def test_errors_of_the_device_lead_to_explain():
    found = device.failed("RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: open(/dev/vfio/0): Device or resource busy", "")
    assert (found.status, found.mend) == (Status.ERROR, "xlaport explain --entry XPE205")
    assert device.failed("the program on the device ended by signal 6", "").status is Status.ERROR


def test_command_exits_1_for_an_error(here: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "no host name")
    assert cli.main(["doctor", "--no-device", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert {"name": "TPU_WORKER_HOSTNAMES", "status": "error"}.items() <= next(check for check in document["checks"] if check["name"] == "TPU_WORKER_HOSTNAMES").items()
    assert cli.main(["doctor", "--no-device"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split(",")[0].endswith(("error", "errors"))
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []


@pytest.mark.parametrize("words", [["--python", "/no/such/python"], ["--timeout", "0"]])
def test_bad_requests_are_one_line(words: list[str], capsys: pytest.CaptureFixture):
    assert cli.main(["doctor", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_python_may_be_a_name(here: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """It is found as a shell finds it, asked for its packages, and the same that the device is tried with."""
    program = here / "bin" / "chosen-python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    assert cli.main(["doctor", "--no-device", "--json", "--python", "chosen-python"]) in (0, 1)
    said = {check["name"]: check["said"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert said["python"] == f"Python {sys.version_info[0]}.{sys.version_info[1]} ({program})"
    assert versions.installed_in(program) == versions.installed_in(Path(sys.executable).absolute())


def test_checks_are_frozen():
    with pytest.raises(AttributeError):
        Check("a", Status.OK, "b").said = "c"  # type: ignore[misc]
