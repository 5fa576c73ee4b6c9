"""Which line of the user's an operation came from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import torch
import torch_xla  # noqa: F401 - its folder is asked for

from xlaport.runtime.places import Libraries

LIBRARIES = Libraries.here(("torch", "torch_xla"), all_packages=False)
"""A package that a model comes from is the user's."""

FORMATTED = re.compile(r'File "([^"]+)", line (\d+)')


def is_users(file: str) -> bool:
    """Is a file neither of torch, torch_xla, Python's library nor of xlaport?"""
    return not LIBRARIES.owns(file)


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
