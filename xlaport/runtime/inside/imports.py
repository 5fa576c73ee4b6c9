"""Calling back when the program has imported a module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

WAITING: dict[str, list[Callable[[], None]]] = {}
"""Module that is not imported yet, or not to its end -> what to call then, in order."""


class Awaited(importlib.abc.MetaPathFinder):
    """Finds the awaited module as every other finder would, and calls back once it has been executed."""

    def __init__(self, name: str):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Announced(spec.loader)
        return spec


class Announced(importlib.abc.Loader):
    """The module's own loader, with calls at the end."""

    def __init__(self, loader: importlib.abc.Loader):
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        for done in WAITING.pop(module.__name__, ()):
            done()


def loaded(name: str) -> ModuleType | None:
    """The module, if it has been imported; None where it is hidden, too."""
    return sys.modules.get(name)


def hide(name: str) -> None:
    """As if it were not installed: an import raises ModuleNotFoundError, `importlib.util.find_spec` finds nothing."""
    if loaded(name) is None:
        sys.modules[name] = None


def after(name: str, done: Callable[[], None]) -> None:
    """Call `done` when the module has been imported: at once, if it is there already.

    A module that is being imported (torch_xla, while it imports torch) is waited for if it was awaited before.
    """
    if name in WAITING:
        WAITING[name].append(done)
    elif loaded(name) is not None:
        done()
    else:
        WAITING[name] = [done]
        sys.meta_path.insert(0, Awaited(name))
