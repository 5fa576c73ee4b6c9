"""Answers of earlier runs, kept in the user's cache folder: never in the project, where a stranger could have put some.

What is found in a file depends on the other files of the project, so the answer for all of them is kept under one key: the
contents of all files, the settings, and xlaport itself with its rules.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from xlaport import __version__, usercache
from xlaport.diagnostics import Diagnostic, from_json, to_json

KEPT = 100
"""Answers that are kept; the oldest go first."""


def key(contents: Iterable[tuple[str, bytes]], asked: str, rules: Iterable[Path]) -> str:
    """`contents`: names and bytes of the files; `asked`: all else the answer depends on; `rules`: files of the user's own rules."""
    digest = hashlib.blake2b(digest_size=20)

    def add(*parts: bytes) -> None:
        for part in parts:
            digest.update(b"%d:" % len(part))
            digest.update(part)

    add(__version__.encode(), sys.version.encode(), asked.encode(errors="surrogateescape"))
    for entry in own_files():
        state = entry.stat()
        add(os.fsencode(entry.path), b"%d %d" % (state.st_mtime_ns, state.st_size))
    for path in rules:
        add(os.fsencode(path), path.read_bytes())
    for name, raw in contents:
        add(os.fsencode(name), raw)
    return digest.hexdigest()


def own_files() -> list[os.DirEntry[str]]:
    """Files of xlaport: in a checkout they change without the version. Entries of folders, as six hundred paths take 3 ms to make."""
    package = Path(__file__).resolve().parent.parent
    from xlaport.ruleset.load import rules_folder

    return [entry for top in (package, rules_folder()) if top.is_dir() for entry in sorted(below(str(top)), key=lambda entry: entry.path)]


def below(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from below(entry.path) if entry.name != "__pycache__" else ()
            elif entry.name.endswith((".py", ".md", ".json")):
                yield entry


def read(key: str) -> list[Diagnostic] | None:
    """The answer kept under a key; None without one, and for a file that is not as we write it."""
    try:
        document = json.loads((usercache.folder("lint") / f"{key}.json").read_bytes())
        return [from_json(record) for record in document[key]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write(key: str, diagnostics: list[Diagnostic]) -> None:
    """Keep an answer, in one step. A cache that cannot be written is no error."""
    text = json.dumps({key: [to_json(diagnostic) for diagnostic in diagnostics]})
    try:
        usercache.write(text, "lint", f"{key}.json")
        drop_oldest()
    except OSError:
        return


def drop_oldest() -> None:
    entries = sorted(os.scandir(usercache.folder("lint")), key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries[KEPT:]:
        os.unlink(entry.path)
