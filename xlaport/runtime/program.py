"""A user's program in a process of its own: started, limited in time, ended with all it started, and what it recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from xlaport.errors import UserError
from xlaport.runtime.job import JOB, Job

ROOT = Path(__file__).resolve().parents[2]
"""The folder the package is in: put on the program's path while the boot imports what it needs."""

BOOT = Path(__file__).resolve().parent / "boot"
KEPT = 64 * 1024
"""Bytes of a program's output that are kept, from its end: programs print megabytes."""

GRACE = 5.0
"""Seconds a program that is told to stop may take."""


@dataclass(frozen=True)
class Program:
    """What is run: `python script arguments`, in `folder`, with `environment` added to this process's."""

    script: Path
    arguments: tuple[str, ...] = ()
    python: str = sys.executable
    folder: Path = field(default_factory=Path.cwd)
    environment: tuple[tuple[str, str], ...] = ()
    processes: int = 1

    def command(self) -> list[str]:
        if self.processes == 1:
            return [self.python, str(self.script), *self.arguments]
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={self.processes}"]
        return [self.python, *launcher, str(self.script), *self.arguments]

    def with_environment(self, **added: str) -> Program:
        return replace(self, environment=(*self.environment, *added.items()))


@dataclass(frozen=True)
class Ran:
    """How a run ended and what it recorded.

    `status` is "steps" (stopped after the steps asked for), "ended", "exit", "error", "killed" (by a signal) or
    "timeout"; `code` the exit status. `records` are those of rank 0's processes that used torch, in order.
    `output` is the end of what it printed.
    """

    status: str
    code: int
    seconds: float
    records: tuple[dict, ...] = ()
    output: str = ""
    error: str = ""
    frames: tuple[tuple[str, int], ...] = ()

    @property
    def good(self) -> bool:
        return self.status in ("steps", "ended") or self.status == "exit" and self.code == 0

    def of_kind(self, kind: str) -> list[dict]:
        return [record for record in self.records if record["kind"] == kind]

    def reason(self) -> str:
        """Why it failed, in one line."""
        if self.status == "timeout":
            return f"still running after {self.seconds:.0f} s (--limit)"
        if self.status == "killed":
            return f"killed by {signal.Signals(-self.code).name}" + (", perhaps for want of memory" if self.code == -signal.SIGKILL else "")
        where = f" at {self.frames[-1][0]}:{self.frames[-1][1]}" if self.frames else ""
        return (self.error or last_line(self.output) or f"exit status {self.code}") + where


def check(script: Path) -> Path:
    """The script as it will be run; raises UserError when there is none."""
    if script.is_dir():
        raise UserError(f"{script} is a folder: name the script that trains")
    if not script.is_file():
        raise UserError(f"{script}: no such script")
    return script


def run(program: Program, job: Job, limit: float | None, show: bool = False) -> Ran:
    """Run a program under a job's watch for at most `limit` seconds. `show` lets it print where we print.

    Nothing it started is left running: its process group is ended with it.
    """
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    described = folder / "job.json"
    job.write(described)
    started = time.monotonic()
    with output(folder, show) as stream:
        child = subprocess.Popen(
            program.command(),
            cwd=program.folder,
            env=environment(program, described),
            stdin=subprocess.DEVNULL,
            stdout=None if show else stream,
            stderr=None if show else subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = not ended_in_time(child, limit)
    seconds = time.monotonic() - started
    printed = "" if show else tail(folder / "output.txt")
    return told(tuple(records(folder)), child.returncode, timed_out, seconds, printed)


@contextmanager
def output(folder: Path, show: bool) -> Iterator:
    if show:
        yield None
        return
    with (folder / "output.txt").open("wb") as stream:
        yield stream


def environment(program: Program, job: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(BOOT), os.environ.get("PYTHONPATH")]))
    default = {"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1"} if "PJRT_DEVICE" not in os.environ else {}
    own = {"PYTHONPATH": path, JOB: str(job), "PYTHONUNBUFFERED": "1"}
    return {**default, **os.environ, **dict(program.environment), **own}


def ended_in_time(child: subprocess.Popen, limit: float | None) -> bool:
    """Wait for the end; whatever happens, nothing of its process group lives on."""
    try:
        child.wait(limit)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        end_group(child)


def end_group(child: subprocess.Popen) -> None:
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        if child.poll() is not None:
            number = signal.SIGKILL
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def tail(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - KEPT))
        return stream.read().decode("utf-8", errors="replace")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


# -- what was recorded


def streams(folder: Path) -> list[tuple[int, list[dict]]]:
    """(rank, records) of every process that recorded, by rank and start."""
    found = []
    for file in sorted(folder.glob("events.*.jsonl"), key=lambda file: file.stat().st_mtime):
        lines = file.read_text(encoding="utf-8").splitlines()
        found.append((int(file.name.split(".")[1]), [json.loads(line) for line in lines if line.endswith("}")]))
    return sorted(found, key=lambda pair: pair[0])


def records(folder: Path) -> list[dict]:
    """Rank 0's records; the process that trained comes last, so that its end is the one that counts."""
    own = [entries for rank, entries in streams(folder) if rank == 0]
    own.sort(key=lambda entries: any(record["kind"] in ("loss", "step") for record in entries))
    return [record for entries in own for record in entries]


def told(recorded: Sequence[dict], code: int, timed_out: bool, seconds: float, printed: str) -> Ran:
    ends = [record for record in recorded if record["kind"] == "end"]
    last = ends[-1] if ends else {}
    failed = next((record for record in ends if record["status"] == "error"), None)
    status = "steps" if any(record["status"] == "steps" for record in ends) else last.get("status", "exit")
    if timed_out:
        status = "timeout"
    elif status != "steps" and code < 0:
        status = "killed"
    elif status != "steps" and failed is not None:
        status, last = "error", failed
    elif status != "steps" and code != 0:
        status = "exit"
    frames = tuple((file, line) for file, line in last.get("frames", ()))
    return Ran(status, code, seconds, tuple(recorded), printed, last.get("error", ""), frames)


def temporary() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="xlaport-")
