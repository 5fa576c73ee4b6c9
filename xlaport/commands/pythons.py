"""The Python that a user names, which need not be ours."""

from __future__ import annotations

import shutil
import subprocess

from xlaport.errors import UserError


def named(name: str) -> str:
    """A program by path, or by a name that the shell would find; raises UserError where there is none."""
    python = shutil.which(name)
    if python is None:
        raise UserError(f"--python {name}: no such program")
    return python


def python_of(name: str, package: str) -> str:
    """The Python a user names, as a path; raises UserError where there is none, or it has not the package."""
    python = named(name)
    if not has_package(python, package):
        raise UserError(f"{python} has no {package}: pip install 'xlaport[xla]' there, or name a Python that has it with --python")
    return python


def has_package(python: str, name: str) -> bool:
    """Whether that Python finds a package; nothing is imported."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([python, "-c", look], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
