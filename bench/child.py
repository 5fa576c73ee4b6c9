"""A child process with what it cost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Child:
    """`cpu` and `wall` in seconds, `peak` resident memory in MB (10^6 bytes); the child's own children that it
    waited for are part of `cpu`, and of `peak` when one of them was the largest."""

    code: int
    cpu: float
    wall: float
    peak: float
    out: str
    err: str


def run(command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Child:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=env, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        return Child(
            process.returncode, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6, text(out), text(err)
        )


def text(stream) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


def xlaport(*arguments: str | Path) -> Child:
    """`python -m xlaport ARGUMENTS` of this checkout, under the Python that runs the bench."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return run([sys.executable, "-m", "xlaport", *map(str, arguments)], env={**os.environ, "PYTHONPATH": path})
