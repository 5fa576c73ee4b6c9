"""Modes of torch's functions belong to a thread: how one reaches those a program starts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torch.overrides import TorchFunctionMode


def in_threads(mode: Callable[[], TorchFunctionMode]) -> None:
    """Each thread that is started from now on runs in a mode; of several, the one asked for first is the innermost."""
    run = threading.Thread._bootstrap_inner  # `run` is what programs override

    def moded(self):
        with mode():
            run(self)

    threading.Thread._bootstrap_inner = moded
