"""A child process with what it cost.

Linux counts the memory of the process that starts a child into the child's peak, so the child is started by a small
Python of its own: this file, run as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def absolute(text: str) -> Path:
    """A folder on the command line of a bench: children are run in other folders."""
    return Path(text).resolve()


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


def run(command: Sequence[str], **variables: str) -> Child:
    """Run `command` to its end, with the bench's checkout importable, and these variables in its environment."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in ("out", "err", "usage")}
        with files["out"].open("wb") as out, files["err"].open("wb") as err:
            starter = [sys.executable, "-S", __file__, str(files["usage"]), *command]
            environment = {**os.environ, "PYTHONPATH": path, **variables}
            subprocess.run(starter, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, check=True)
        texts = {name: files[name].read_text(encoding="utf-8", errors="replace") for name in ("out", "err")}
        return Child(**json.loads(files["usage"].read_text(encoding="utf-8")), **texts)


def xlaport(*arguments: str | Path, **variables: str) -> Child:
    """`python -m xlaport ARGUMENTS` of this checkout, under the Python that runs the bench."""
    return run([sys.executable, "-m", "xlaport", *map(str, arguments)], **variables)


def start(usage_file: str, command: Sequence[str]) -> None:
    """Run `command` and write what it cost to `usage_file`."""
    started = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    result = {
        "code": os.waitstatus_to_exitcode(status),
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - started,
        "peak": usage.ru_maxrss * 1024 / 1e6,
    }
    Path(usage_file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2:])
