"""Which line of the user's an operation came from."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable
from functools import cache

import torch

from xlaport.runtime.places import Libraries

FORMATTED = re.compile(r'File "([^"]+)", line (\d+)')


@cache
def libraries() -> Libraries:
    """Asked for when the program's packages are imported. A package that a model comes from, such as transformers, is the user's."""
    return Libraries.here(("torch", "torch_xla", "torchax", "jax", "optax"), all_packages=False)


def is_users(file: str) -> bool:
    """Is a file neither of torch, torch_xla, torchax, Python's library nor of xlaport?"""
    return not libraries().owns(file)


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


def raised_at(error: BaseException) -> str:
    """`file:line` of the innermost frame of the user's that an exception came through; empty without one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
