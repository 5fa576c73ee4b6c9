"""A user's program in a process of its own: started, limited in time, ended with all it started, and what it recorded."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from xlaport.errors import UserError
from xlaport.processes import send, signal_name, told_to_end
from xlaport.runtime.job import JOB, REPLICAS, Job
from xlaport.runtime.places import Libraries

ROOT = Path(__file__).resolve().parents[2]
"""The folder the package is in: put on the program's path while the boot imports what it needs."""

BOOT = Path(__file__).resolve().parent / "boot"
KEPT = 64 * 1024
"""Bytes of a program's output that are kept, from its end: programs print megabytes."""

OWN_PROCESSES = re.compile(r"\bspawn\(|\bProcess\(|\btorch_xla\.launch\(|\bstart_processes\(")
"""Text of a script that starts the processes of its ranks."""

STUCK = "threads to join the rendezvous"
"""What XLA:CPU prints before it ends a process in which one device waits for the others."""

ALONE = (
    "a replica waited for the others in a collective, which they did not launch: in a branch of some ranks, with other shapes, "
    "or where replicas that take turns cannot (docs/distributed.md)"
)

GRACE = 5.0
"""Seconds a program that is told to stop may take."""


@dataclass(frozen=True)
class Program:
    """What is run: `python script arguments`, in `folder`, with `environment` added to this process's.

    With `is_module` the script is the dotted name of a module, as `python -m` takes it.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    python: str = sys.executable
    folder: Path = field(default_factory=Path.cwd)
    environment: tuple[tuple[str, str], ...] = ()
    processes: int = 1
    is_module: bool = False

    def command(self) -> list[str]:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={self.processes}"] if self.processes > 1 else []
        module = ["-m"] if self.is_module else []
        return [self.python, *launcher, *module, str(self.script), *self.arguments]

    def on(self, replicas: int) -> Program:
        """The program as it is run on several devices: one that does not start its own processes is started once for each."""
        told = self.with_environment(**{REPLICAS: str(replicas)})
        return told if self.starts_own_processes else replace(told, processes=replicas)

    @property
    def starts_own_processes(self) -> bool:
        """Whether a script starts the processes of its ranks itself, as its text says; a module is not read."""
        return self.is_module or OWN_PROCESSES.search(self.script.read_text(encoding="utf-8", errors="replace")) is not None

    def with_environment(self, **added: str) -> Program:
        return replace(self, environment=(*self.environment, *added.items()))


@dataclass(frozen=True)
class Ran:
    """How a run ended and what it recorded.

    `status` is "steps" (stopped after the steps asked for), "ended", "exit", "error", "killed" (by a signal) or
    "timeout"; `code` the exit status. `ranks` holds the records of each rank's processes that used torch, in order.
    `output` is the end of what it printed.
    """

    status: str
    code: int
    seconds: float
    ranks: tuple[tuple[dict, ...], ...] = ()
    output: str = ""
    error: str = ""
    frames: tuple[tuple[str, int], ...] = ()

    @property
    def good(self) -> bool:
        return self.status in ("steps", "ended") or self.status == "exit" and self.code == 0

    @property
    def records(self) -> tuple[dict, ...]:
        """Those of rank 0."""
        return self.ranks[0] if self.ranks else ()

    def of_kind(self, kind: str) -> list[dict]:
        """Rank 0's."""
        return [record for record in self.records if record["kind"] == kind]

    def reason(self) -> str:
        """Why it failed, in one line."""
        if self.status == "timeout":
            return f"still running after {self.seconds:.0f} s (--limit)"
        if self.status == "killed" and STUCK in self.output:
            return ALONE
        if self.status == "killed":
            return f"killed by {signal_name(-self.code)}" + (", perhaps for want of memory" if self.code == -signal.SIGKILL else "")
        libraries = Libraries.here(())
        place = next((frame for frame in reversed(self.frames) if not libraries.owns(frame[0])), None)
        where = f" at {place[0]}:{place[1]}" if place else ""
        return (without_cuda(self.error) or printed_error(self.output) or last_line(self.output) or f"exit status {self.code}") + where


def check(script: Path) -> Path:
    """The script as it will be run; raises UserError when there is none."""
    if script.is_dir():
        raise UserError(f"{script} is a folder: name the script that trains")
    if not script.is_file():
        raise UserError(f"{script}: no such script")
    return script


def run(program: Program, job: Job, limit: float | None, show: bool = False) -> Ran:
    """Run a program under a job's watch for at most `limit` seconds. `show` lets it print and read where we do.

    Nothing it started is left running: its process group is ended with it, and whoever left the group. Raises UserError
    when its Python cannot be started.
    """
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    described = folder / "job.json"
    job.write(described)
    started = time.monotonic()
    with output(folder, show) as stream, told_to_end():
        child = start(program, described, stream)
        timed_out = not ended_in_time(child, described, limit)
    seconds = time.monotonic() - started
    printed = "" if show else tail(folder / "output.txt")
    recorded = streams(folder)
    return told(by_rank(recorded), first_error(recorded), child.returncode, timed_out, seconds, printed)


@contextmanager
def output(folder: Path, show: bool) -> Iterator:
    if show:
        yield None
        return
    with (folder / "output.txt").open("wb") as stream:
        yield stream


WITHOUT_TPU = {"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-1"}
"""Where there is no TPU libtpu must not ask for its metadata, and who asks torch_xla for the number of chips (Lightning, on any machine) needs a type to be told 0."""


def start(program: Program, job: Path, stream) -> subprocess.Popen:
    """`stream` takes what it prints; None: it prints and reads where this process does."""
    try:
        return subprocess.Popen(
            program.command(),
            cwd=program.folder,
            env=environment(program, job),
            stdin=None if stream is None else subprocess.DEVNULL,
            stdout=stream,
            stderr=None if stream is None else subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"{program.python}: {error.strerror or error}") from error
    except ValueError as error:  # a null byte in an argument
        raise UserError(f"{program.script}: {error}") from error


def environment(program: Program, job: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(BOOT), os.environ.get("PYTHONPATH")]))
    default = WITHOUT_TPU if os.environ.get("PJRT_DEVICE", "CPU") == "CPU" else {}
    own = {"PYTHONPATH": path, JOB: str(job), "PYTHONUNBUFFERED": "1"}
    return {**default, **os.environ, **dict(program.environment), **own}


def ended_in_time(child: subprocess.Popen, job: Path, limit: float | None) -> bool:
    """Wait for the end; whatever happens, nothing that it started lives on."""
    try:
        child.wait(limit)
        return True
    except subprocess.TimeoutExpired:
        return False
    except KeyboardInterrupt:
        ask(child, signal.SIGINT)  # in a session of its own, the terminal does not tell it
        raise
    finally:
        ask(child, signal.SIGTERM)
        end_all(child, job)


def ask(child: subprocess.Popen, number: int) -> None:
    """Send a signal to a program that runs, and give it time to come to its end."""
    if child.poll() is not None:
        return
    send(child.pid, number)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        return


def end_all(child: subprocess.Popen, job: Path) -> None:
    """End the group, and those that left it: they are known by the job in their environment (where /proc is)."""
    send(child.pid, signal.SIGKILL)
    child.wait()
    for _ in range(10):  # one that is forking now shows in the next look
        left = followers(job)
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            return
        time.sleep(0.05)


def followers(job: Path) -> list[int]:
    """Processes that were started with this job in their environment and have not ended."""
    mark = f"{JOB}={job}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


CUDA_PACKAGES = frozenset(
    "amp_C apex bitsandbytes causal_conv1d cuda cudf cuml cupy dali deep_ep deep_gemm flash_attn flash_attn_interface flashinfer fused_layer_norm_cuda"
    " GPUtil gpustat mamba_ssm nvidia pycuda pynvml selective_scan_cuda spconv tensorrt torch_tensorrt torchsparse transformer_engine triton vllm xformers".split()
)
"""Packages that are installed for CUDA only: where they are missing, installing them is no help."""

HIDDEN = re.compile(r"ModuleNotFoundError: (import of torch_xla halted|No module named 'torch_xla[\w.]*'; 'torch_xla' is not a package)")
MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


def without_cuda(error: str) -> str:
    """The error, or that a package is missing which has no form on another device, or is kept from the program."""
    if HIDDEN.match(error):
        return "its import of torch_xla, which is hidden where CUDA is carried to the CPU: run a port with --device xla, or plainly"
    missing = MISSING.match(error)
    if missing is None or missing[1] not in CUDA_PACKAGES:
        return error
    return f"needs the package {missing[1]}, which has no form without CUDA"


def tail(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - KEPT))
        return stream.read().decode("utf-8", errors="replace")


PRINTED_ERROR = re.compile(r'^  File ".+", line \d+.*\n(?: .*\n)*((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: \S.*)?)[ \t\r]*$', re.MULTILINE)
"""What ends a traceback. Without one, `ImportError: ...` may be a warning that has nothing to do with the end."""


def printed_error(text: str) -> str:
    """The last error that a program printed with its traceback: one that catches its own says more, or nothing, after it."""
    printed = PRINTED_ERROR.findall(text)
    return printed[-1].strip()[:300] if printed else ""


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


def by_rank(recorded: list[tuple[int, list[dict]]]) -> tuple[tuple[dict, ...], ...]:
    """By rank, without gaps; of a rank's processes the one that trained comes last, so that its end is the one that counts."""
    ranks: dict[int, list[list[dict]]] = {}
    for rank, entries in recorded:
        ranks.setdefault(rank, []).append(entries)
    for own in ranks.values():
        own.sort(key=lambda entries: any(record["kind"] in ("loss", "step") for record in entries))
    return tuple(tuple(record for entries in ranks[rank] for record in entries) for rank in sorted(ranks))


def first_error(recorded: list[tuple[int, list[dict]]]) -> dict | None:
    """The end of the process that failed first, of any rank: others fail for it, launchers last."""
    ends = [record for _, entries in recorded for record in entries if record["kind"] == "end" and record["status"] == "error"]
    return min(ends, key=lambda record: record["time"], default=None)


def told(ranks: tuple[tuple[dict, ...], ...], failed: dict | None, code: int, timed_out: bool, seconds: float, printed: str) -> Ran:
    ends = [record for record in (ranks[0] if ranks else ()) if record["kind"] == "end"]
    last = ends[-1] if ends else {}
    status = "steps" if any(record["status"] == "steps" for record in ends) else last.get("status", "exit")
    if status != "steps" and timed_out:
        status = "timeout"
    elif status != "steps" and code < 0:
        status = "killed"
    elif status != "steps" and failed is not None and code != 0:
        status, last = "error", failed
    elif status != "steps":
        status = "exit" if code != 0 or not ends else "ended"
    frames = tuple((file, line) for file, line in last.get("frames", ()))
    return Ran(status, code, seconds, ranks, printed, last.get("error", ""), frames)


def temporary() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="xlaport-")
