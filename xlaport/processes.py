"""Child processes that lead a group: ended with all that is in it, and when this process is told to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def send(group: int, number: int) -> None:
    """A signal to all of a group; none when it has ended."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS forbids signals to a group of zombies
        return


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


@contextmanager
def told_to_end() -> Iterator[None]:
    """A signal to end this process ends what it started first: it unwinds, as Ctrl-C does. Only the main thread is told.

    A signal that is ignored, as under nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number, frame):
        raise SystemExit(128 + number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
