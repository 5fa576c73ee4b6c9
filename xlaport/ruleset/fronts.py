"""The front matter of the pages xlaport ships, kept as bytecode beside them.

To read 118 pages as TOML takes 25 ms, a fifth of a run on one file. So they are compiled as a module is, by the machinery of
Python's own imports: kept in `__pycache__` where that can be written, and made again when a page is another one than it was.
The pages stay the only source.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from pathlib import Path

Front = tuple[str, dict, bool]
"""Path of a page below the folder, its front matter, and whether a Python file stands beside it."""


LEFT_OUT = frozenset({"errors", "__pycache__"})
"""Folders below `rules/` without rules: pages of `explain`, and bytecode."""


class Compiled(SourceFileLoader):
    """Loads the front matters below a folder, as `read` gives them, under a path at which there is no file."""

    def __init__(self, folder: Path, read: Callable[[Path], dict]):
        super().__init__("xlaport_rule_pages", os.path.join(folder, "pages.py"))
        self._folder, self._read = folder, read
        areas = [entry for entry in os.scandir(folder) if entry.is_dir() and entry.name not in LEFT_OUT] if folder.is_dir() else []
        entries = (entry for area in areas for entry in os.scandir(area))
        self._files = sorted((entry for entry in entries if entry.name.endswith((".md", ".py"))), key=lambda entry: entry.path)

    def fronts(self) -> list[Front]:
        made: dict = {}
        exec(self.get_code(self.name), made)  # a constant, of our own making
        return made["FRONTS"]

    def path_stats(self, path: str) -> dict[str, int]:
        """What bytecode is checked against: instead of a time, 32 bits of a digest of all names, times and sizes."""
        states = ((entry.path, entry.stat()) for entry in self._files)
        said = "\n".join(f"{name} {state.st_mtime_ns} {state.st_size}" for name, state in states)
        return {"mtime": int.from_bytes(blake2b(os.fsencode(said), digest_size=4).digest()), "size": 0}

    def get_data(self, path: str) -> bytes:
        return b"" if path == self.path else super().get_data(path)

    def source_to_code(self, data: bytes, path: str, *, _optimization: int = -1):
        names = {entry.path for entry in self._files}
        pages = [name for name in sorted(names) if name.endswith(".md")]
        fronts = [(os.path.relpath(name, self._folder), self._read(Path(name)), name[:-3] + ".py" in names) for name in pages]
        return compile(f"FRONTS = {fronts!r}", path, "exec")
