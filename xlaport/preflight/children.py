"""Running a child process and reading what it left. Whatever way it ends, the caller gets an answer or a sentence.

A child gets a folder with `request.json` and leaves `answer.json` there. Both children run native code that may abort.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from xlaport import files
from xlaport.errors import UserError
from xlaport.processes import send, signal_name, told_to_end

BOOTSTRAP = Path(__file__).resolve().with_name("bootstrap.py")
REQUEST, ANSWER, ERRORS, OUTPUT = "request.json", "answer.json", "stderr", "stdout"
EXIT = os._exit
"""As it is before the trace child puts another in its place, for programs that call it."""

MOST_SAID = 300
"""Characters of what a program said that an answer repeats; torch lists all its backends in one line."""

LEAST_FREE = 64 * 2**10
"""Bytes of disk under which a child could not write what it said."""

CPU = {"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Child:
    """How a child is called in sentences, and what runs it. `seconds` is the time it may take."""

    title: str
    python: Path
    module: str
    environment: Mapping[str, str]
    seconds: float


@dataclass(frozen=True)
class Ended:
    """`answer` is what the child wrote, if it came to that; `death` says how it ended without."""

    answer: dict[str, Any] | None
    death: str = ""
    errors: str = ""


def run(child: Child, request: dict[str, Any], folder: Path) -> Ended:
    """Run a child to its end. Raises `UserError` when the folder cannot be written or there is no such Python."""
    write(folder / REQUEST, request)
    (folder / ANSWER).unlink(missing_ok=True)
    environment = {**{key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}, **child.environment}
    started = time.monotonic()
    with open(folder / OUTPUT, "wb") as out, open(folder / ERRORS, "wb") as err, told_to_end():
        try:
            process = subprocess.Popen(
                [str(child.python), str(BOOTSTRAP), child.module, str(folder)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{child.python}: {error.strerror or error}") from None
        try:
            status = process.wait(child.seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            send(process.pid, signal.SIGKILL)  # it leads a session: loader processes that outlive the answer go too
            process.wait()
    errors = (folder / ERRORS).read_text(encoding="utf-8", errors="replace")
    answer = read(folder / ANSWER)
    if answer is not None:
        return Ended(answer, errors=errors)
    if status is None:
        return Ended(None, f"{child.title} was stopped after {time.monotonic() - started:.0f} s (--timeout)", errors)
    return Ended(None, sentence(child.title, status, errors, is_full(folder)), errors)


def write(file: Path, document: dict[str, Any]) -> None:
    """Write JSON in one step; raises `UserError` with the system's reason."""
    try:
        with files.replaced(file) as temporary:
            temporary.write_text(json.dumps(document), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file.parent}: {error.strerror or error}") from None


def read(file: Path) -> dict[str, Any] | None:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def leave(folder: Path, answer: dict[str, Any]) -> NoReturn:
    """In the child: write its answer, with the peak of its resident bytes (`rss`) and its seconds of CPU (`cpu`), and end at once, whatever threads and workers it has."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    write(folder / ANSWER, answer | {"rss": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime})
    EXIT(0)


# -- deaths

NO_SPACE = "no space left on the disk of the work folder; TMPDIR or --keep names another"

KNOWN = (
    (r"Unknown command line flag[^\n]*", "LIBTPU_INIT_ARGS holds a flag that this libtpu does not know: {0}"),
    (r"PjRt buffer is null in TransferFromDevice", "an operation without a lowering read data that does not exist while tracing; run a script instead of a factory to find its line"),
    (r"Check failed: !count_overflow", "the program has a shape that is not fixed, and the compiler aborts on those"),
    (r"libtpu multi-process lockfile[^\n]*", "another process holds libtpu's lock file: {0}"),
    (r"No space left on device[^\n]*", NO_SPACE),
    (r"(?:MemoryError|std::bad_alloc|Cannot allocate memory)[^\n]*", "the host's memory ran out"),
)
"""What a child's last words mean, the most telling first; `{0}` is the match."""


def sentence(title: str, status: int, errors: str, disk_full: bool = False) -> str:
    """How a child ended that left no answer. On a full disk its last words may be missing too."""
    ended = f"{title} was ended by {signal_name(-status)}" if status < 0 else f"{title} ended with status {status}"
    for pattern, meaning in KNOWN:
        found = re.search(pattern, errors)
        if found:
            return f"{ended}: {meaning.format(found.group().strip())}"
    if disk_full:
        return f"{ended}: {NO_SPACE}"
    if status == 0:
        return f"{ended} and no answer, as when a program puts another in its place (os.execv)"
    if status == -signal.SIGKILL:
        return f"{ended}: most likely the host's memory ran out"
    return f"{ended}: {last_words(errors)}"


def is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < LEAST_FREE


def last_words(errors: str) -> str:
    """The line of a child's stderr that says most: a failed check, an exception, or the last line."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    checks = [line for line in lines if "Check failed" in line]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return (checks[:1] or raised[-1:] or lines[-1:] or ["it said nothing"])[0][:MOST_SAID]
