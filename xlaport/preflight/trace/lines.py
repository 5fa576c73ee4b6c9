"""Which line of the user's an operation came from."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import torch
import torch_xla

PACKAGE = str(Path(__file__).resolve().parent.parent.parent)
NOT_THE_USERS = tuple(
    f"{folder}/" for folder in (str(Path(torch.__file__).parent), str(Path(torch_xla.__file__).parent), PACKAGE)
)
LIBRARY = sysconfig.get_paths()["stdlib"]
FORMATTED = re.compile(r'File "([^"]+)", line (\d+)')


def is_users(file: str) -> bool:
    """Is a file neither of torch, torch_xla, Python's library nor of xlaport?"""
    if file.startswith("<") or file.startswith(NOT_THE_USERS):
        return False
    return "-packages/" in file or not file.startswith(LIBRARY + "/")


def here() -> str:
    """`file:line` of the innermost frame of the user's; of the forward operation inside a backward pass; empty when unknown."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return of_backward()


def of_backward() -> str:
    """The line whose backward pass is running. Anomaly mode keeps each operation's stack; its thread has no frames."""
    node = torch._C._current_autograd_node()
    if node is None:
        return ""
    return innermost(node.metadata.get("traceback_", ()))


def innermost(formatted: Iterable[str]) -> str:
    found = [(file, line) for entry in formatted for file, line in FORMATTED.findall(entry) if is_users(file)]
    return f"{found[-1][0]}:{found[-1][1]} (backward)" if found else ""
