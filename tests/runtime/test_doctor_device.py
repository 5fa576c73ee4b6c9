"""The small program that `xlaport doctor` runs, on XLA:CPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from xlaport.doctor import device
from xlaport.doctor.check import Status, Surroundings

HERE = Surroundings(Path(sys.executable), sys.version_info[:2], {"PJRT_DEVICE": "CPU"}, {"torch": "2.9.0", "torch_xla": "2.9.0"})


def test_program_is_compiled_and_run(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    devices, ran = device.check_device(HERE)
    assert (devices.name, devices.status, devices.said) == ("devices", Status.OK, "1 CPU device")
    assert (ran.name, ran.status) == ("compile_and_run", Status.OK)


def test_result_that_is_wrong_is_an_error(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setattr(device, "SIDE", 255)
    _, ran = device.check_device(HERE)
    assert (ran.status, ran.said) == (Status.ERROR, "a product of ones gave 256.0 and should give 255")


def test_backend_that_fails_is_explained(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    failed, = device.check_device(HERE)
    assert (failed.status, failed.mend) == (Status.ERROR, "xlaport explain --entry XPE203")


def test_program_that_hangs_is_ended(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    failed, = device.check_device(replace(HERE, seconds=0.05))
    assert failed.status is Status.ERROR and "was stopped after 0 s (--timeout)" in failed.said
