"""Which lines are the program's: not those of packages it imports, of Python, or ours. Used inside the program and outside."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of xlaport."""

PACKAGES = ("site-packages", "dist-packages")
"""Folders packages are installed in."""


class Place(NamedTuple):
    """A line of a file, numbered from 1, and the function it is in."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Libraries:
    """`roots` are folders of libraries: Python's own, and packages of a checkout.

    With `all_packages` what is in a folder named in PACKAGES is a library's too; without, a package whose folder is not among the roots counts as
    the program's: of a model of transformers that is where the operations are.
    """

    roots: tuple[str, ...]
    all_packages: bool = True

    @classmethod
    def here(cls, modules: tuple[str, ...], all_packages: bool = True) -> Libraries:
        """Those of this Python, with the folders of imported packages that may be installed anywhere."""
        folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        imported = [sys.modules[name] for name in modules if sys.modules.get(name) is not None]  # None: hidden
        folders |= {os.path.dirname(module.__file__) for module in imported}
        return cls(tuple(sorted(real + os.sep for real in map(os.path.realpath, folders))), all_packages)

    def owns(self, file: str) -> bool:
        """Whether a code object's file is a library's, or xlaport's: also code that has no file (`<frozen ...>`)."""
        return file.startswith(PACKAGE) or is_library(file, self.roots, self.all_packages)


@cache
def is_library(file: str, roots: tuple[str, ...], all_packages: bool) -> bool:
    if file.startswith("<"):
        return True
    path = os.path.realpath(file)
    if not is_installed(path):
        return path.startswith(roots)
    # Packages are installed below Python's own library: that root says nothing of them.
    return all_packages or path.startswith(tuple(root for root in roots if is_installed(root)))


def is_installed(path: str) -> bool:
    return any(name in path.split(os.sep) for name in PACKAGES)
