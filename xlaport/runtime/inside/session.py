"""One watched process: what it records, when it stops, and how its end is told.

Records are JSON lines in `events.RANK.PID.jsonl` of the job's folder, written as they come, so that a process that is
killed leaves what it had.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from xlaport.runtime import job as jobs
from xlaport.runtime import replicas
from xlaport.runtime.inside import imports
from xlaport.runtime.job import Job

SWALLOWED = 3
"""How often a program may catch the end it is asked to come to; then its process is left at once."""


class StopProgram(BaseException):
    """Raised in the program when it has done the steps it was asked for."""


class Session:
    """Records and end of this process. Made once, by `begin`."""

    def __init__(self, job: Job):
        self.job = job
        self.is_main = "XLAPORT_MAIN" not in os.environ
        self.ending: list = []
        self.held = ExitStack()  # contexts that last as long as the process
        self.stops = 0
        self.over = False
        self.lock = threading.Lock()
        self.ends = threading.RLock()
        self.streams: dict[int, TextIO] = {}
        self.owner = os.getpid()
        self.joined: int | None = None

    def settle(self) -> None:
        """Find out the rank while there is a process group: by the end it may be gone."""
        if self.joined is None:
            self.joined = rank()

    def rank(self) -> int:
        """Of this thread, where replicas share the process; else of this process."""
        if self.job.replicas > 1 and threading.current_thread() is not threading.main_thread():
            return sys.modules["torch_xla"]._XLAC._xla_get_default_device_ordinal()
        self.settle()
        return self.joined or 0

    def record(self, kind: str, rank: int | None = None, **values) -> None:
        """Append one record to those of a rank (by default this one)."""
        rank = self.rank() if rank is None else rank
        with self.lock:
            if rank not in self.streams:
                file = Path(self.job.folder, f"events.{rank}.{self.owner}.jsonl")
                self.streams[rank] = open(file, "a", encoding="utf-8", buffering=1)
            self.streams[rank].write(json.dumps({"kind": kind, **values}) + "\n")

    def adopt(self) -> None:
        """This process is a fork of the one that began the session: it has records and an end of its own."""
        self.is_main, self.over, self.streams, self.owner, self.joined = False, False, {}, os.getpid(), None
        self.lock, self.ends = threading.Lock(), threading.RLock()

    def at_end(self, action) -> None:
        """Run `action` before the process ends, while torch still works; the last added first."""
        self.ending.append(action)

    def finish(self, status: str, **values) -> None:
        """Write the end, once."""
        with self.ends:
            if not self.over:
                self.over = True
                self.tell(status, **values)

    def tell(self, status: str, **values) -> None:
        for action in reversed(self.ending):
            try:
                action()
            except Exception as error:  # what was recorded so far must not be lost to a failing last look
                self.record("problem", text=f"{type(error).__name__}: {error}"[:2000])
        if "torch" in sys.modules or self.is_main and status == "error":
            for rank in [*self.streams] or [self.rank()]:
                self.record("end", rank, status=status, main=self.is_main, time=time.time(), **values)

    def stop(self) -> None:
        """Bring the program to its end: unwinding where this is the main thread of the first process, at once elsewhere.

        A replica that others share the process with waits until all of them have come as far.
        """
        if self.job.replicas > 1:
            replicas.rest(self.rank())
        self.finish("steps")
        self.stops += 1
        if not self.is_main or threading.current_thread() is not threading.main_thread() or self.stops > SWALLOWED:
            leave(0)
        raise StopProgram


def rank() -> int:
    """Of this process, by its launcher or by the process group it has joined (`mp.spawn` sets no variable)."""
    if "RANK" in os.environ:
        return int(os.environ["RANK"])
    groups = sys.modules.get("torch.distributed")
    return groups.get_rank() if groups is not None and groups.is_available() and groups.is_initialized() else 0


def leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):  # the program has taken it away, closed it, or nobody reads it
            continue
    LEAVE(code)


LEAVE = os._exit


def begin(file: str) -> Session:
    """Called when the interpreter starts: everything else waits for the program to import torch."""
    session = Session(jobs.read(file))
    os.environ["XLAPORT_MAIN"] = str(os.getpid())
    watch_end(session)
    imports.after("torch", lambda: attach(session))
    return session


def attach(session: Session) -> None:
    from xlaport.runtime.inside import controls  # needs torch

    controls.install(session)


def watch_end(session: Session) -> None:
    shown = sys.excepthook

    def hook(kind, error, trace) -> None:
        if issubclass(kind, StopProgram):
            leave(0)
        session.finish("error", error=told(kind, error), frames=frames(error, trace))
        shown(kind, error, trace)

    def exit_now(code: int) -> None:
        session.finish("exit", code=code)
        LEAVE(code)

    sys.excepthook = hook
    os._exit = exit_now
    atexit.register(session.finish, "ended")
    # torch_xla takes its runtime down at exit: what is registered after its import runs before that.
    imports.after("torch_xla", lambda: atexit.register(session.finish, "ended"))
    os.register_at_fork(after_in_child=session.adopt)


def told(kind: type[BaseException], error: BaseException) -> str:
    """One line; of a message that quotes the traceback of another process, the error at its end."""
    text = str(error).strip().splitlines()
    if not text:
        return kind.__name__
    return text[-1] if "Traceback (most recent call last):" in text else f"{kind.__name__}: {text[0]}"


def frames(error: BaseException, trace) -> list[tuple[str, int]]:
    """(file, line) of the failure, outermost first; where the message quotes the traceback of another process, that one's."""
    quoted = [(file, int(line)) for file, line in QUOTED.findall(str(error))]
    return quoted or [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(trace)]


QUOTED = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)
