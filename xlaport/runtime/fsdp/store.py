"""Checkpoints in a directory, local or of any fsspec URL: which are complete, and how a new one comes to be.

    ckpt/step-00000400/     complete.json  host.pt  .metadata  __0_0.distcp ...
    ckpt/step-00000400.1/   the same step saved again: the first goes when this is complete
    ckpt/.step-00000500.tmp/   being written, or left by a save that was interrupted

`complete.json` is written last and lists every file with its size. On a local disk the directory then gets its name by one
rename; object stores have no such rename, and there the list alone says that a checkpoint is complete.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from xlaport.errors import UserError

MARKER = "complete.json"
HOST = "host.pt"
FORMAT = 1
NAME = re.compile(r"^step-(\d{8,})(?:\.(\d+))?$")
UNFINISHED = re.compile(r"^\.step-\d{8,}(?:\.\d+)?\.tmp$")


@dataclass(frozen=True, order=True)
class Saved:
    """A directory with the name of a checkpoint; `attempt` counts saves of one step."""

    step: int
    attempt: int = 0

    @property
    def name(self) -> str:
        return f"step-{self.step:08d}" + (f".{self.attempt}" if self.attempt else "")


class Store:
    """The directory `url`."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url).rstrip("/")
        try:
            self.files, self.root = fsspec.core.url_to_fs(self.url)
        except (ValueError, ImportError) as error:
            raise UserError(f"{self.url}: {error}") from None

    @cached_property
    def is_local(self) -> bool:
        return isinstance(self.files, LocalFileSystem)

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    def full(self, *parts: str) -> str:
        """As torch.distributed.checkpoint takes it."""
        return "/".join((self.url, *parts))

    def names(self) -> list[str]:
        if not self.files.exists(self.root):
            return []
        if not self.files.isdir(self.root):
            raise UserError(f"{self.url}: not a directory of checkpoints")
        self.files.invalidate_cache()
        return [entry.rstrip("/").rpartition("/")[2] for entry in self.files.ls(self.root, detail=False)]

    def all(self) -> list[Saved]:
        """Directories named like a checkpoint, complete or not, oldest first."""
        found = (NAME.match(name) for name in self.names())
        return sorted(Saved(int(match[1]), int(match[2] or 0)) for match in found if match)

    def is_complete(self, saved: Saved) -> bool:
        return self.files.exists(self.path(saved.name, MARKER))

    def complete(self) -> list[Saved]:
        return [saved for saved in self.all() if self.is_complete(saved)]

    def chosen(self, step: int | None) -> Saved:
        """The newest complete one, or that of `step`."""
        if not self.files.exists(self.root):
            raise UserError(f"{self.url}: no such directory")
        complete = [saved for saved in self.complete() if step is None or saved.step == step]
        if complete:
            return complete[-1]
        interrupted = [saved.name for saved in self.all() if step in (None, saved.step)] or [name for name in self.names() if UNFINISHED.match(name)]
        if interrupted:
            raise UserError(f"{self.full(interrupted[-1])}: not complete; its saving was interrupted")
        raise UserError(f"{self.url}: no checkpoint" + ("" if step is None else f" of step {step}; there are {self.steps_text()}"))

    def steps_text(self) -> str:
        return ", ".join(str(saved.step) for saved in self.complete()) or "none"

    def read_marker(self, saved: Saved) -> dict[str, Any]:
        """What `complete.json` says, after its files have been looked at."""
        where = self.full(saved.name)
        try:
            marker = json.loads(self.files.cat_file(self.path(saved.name, MARKER)))
        except ValueError:
            raise UserError(f"{where}/{MARKER}: not readable as JSON") from None
        if marker.get("format") != FORMAT:
            raise UserError(f"{where}: written in format {marker.get('format')!r}; this version reads {FORMAT}")
        for name, size in marker["files"].items():
            path = self.path(saved.name, name)
            if not self.files.exists(path):
                raise UserError(f"{where}: {name} is missing")
            if self.files.size(path) != size:
                raise UserError(f"{where}: {name} has {self.files.size(path)} bytes, and {size} were written")
        return marker

    def begin(self, step: int) -> Draft:
        earlier = [saved for saved in self.complete() if saved.step == step]
        saved = Saved(step, earlier[-1].attempt + 1) if earlier else Saved(step)
        draft = Draft(self, saved, f".{saved.name}.tmp" if self.is_local else saved.name)
        for name in self.names():
            if UNFINISHED.match(name) or name == draft.folder:
                self.remove(name)
        self.files.makedirs(self.path(draft.folder), exist_ok=True)
        return draft

    def remove(self, name: str) -> None:
        self.files.rm(self.path(name), recursive=True)

    def keep_newest(self, count: int | None) -> None:
        """Remove earlier saves of a step, and all but the newest `count` steps; never the newest complete one."""
        complete = self.complete()
        newest = {saved.step: saved for saved in complete}
        kept = sorted(newest.values())[-count:] if count else list(newest.values())
        for saved in complete:
            if saved not in kept:
                self.remove(saved.name)


@dataclass(frozen=True)
class Draft:
    """A checkpoint that is being written, in `folder`."""

    store: Store
    saved: Saved
    folder: str

    @property
    def url(self) -> str:
        return self.store.full(self.folder)

    def write(self, name: str, content: bytes) -> None:
        with self.store.files.open(self.store.path(self.folder, name), "wb") as stream:
            stream.write(content)
            if self.store.is_local:
                stream.flush()
                os.fsync(stream.fileno())

    def finish(self, marker: dict[str, Any]) -> None:
        """List what there is, then give it its name."""
        files = self.store.files
        files.invalidate_cache()
        listed = {path.rpartition("/")[2]: files.size(path) for path in files.find(self.store.path(self.folder))}
        self.write(MARKER, json.dumps({"format": FORMAT, **marker, "files": listed}).encode())
        if self.store.is_local:
            sync_folder(self.store.path(self.folder))
            os.rename(self.store.path(self.folder), self.store.path(self.saved.name))
            sync_folder(self.store.root)


def sync_folder(path: str) -> None:
    """Names of a directory reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
