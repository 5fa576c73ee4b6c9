"""What a text imports, read without parsing: cheap enough for every file, and for files that only might matter."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(.+)|import[ \t]+([\w., \t]+))", re.MULTILINE)


def imported_names(text: str, package: str) -> Iterator[str]:
    """Dotted names a text imports in a module of `package`; each may be a module, or something in one."""
    for match in IMPORT.finditer(text):
        base, names, plain = match.groups()
        if plain:
            yield from filter(None, (name.split(" as ")[0].strip() for name in plain.split(",")))
            continue
        base = relative_to_absolute(base, package)
        listed = [name.split(" as ")[0].strip(" ()\\") for name in names.split(",")]
        yield from filter(None, [base, *(f"{base}.{name}" for name in listed if name.isidentifier())])


def relative_to_absolute(dotted: str, package: str) -> str:
    level = len(dotted) - len(dotted.lstrip("."))
    if not level:
        return dotted
    parts = package.split(".") if package else []
    kept = parts[: len(parts) - (level - 1)] if level > 1 else parts
    rest = dotted[level:]
    return ".".join([*kept, *([rest] if rest else [])])


def read_imported(contents: dict[Path, bytes], root: Path, most: int) -> dict[Path, bytes]:
    """Files below `root` that these import, directly or through others, the nearest first and at most `most`."""
    found: dict[Path, bytes] = {}
    look = lru_cache(maxsize=None)(file_of)
    queue = deque(contents.items())
    while queue:
        path, raw = queue.popleft()
        for file in dict.fromkeys(files_imported(path, raw.decode("utf-8", "replace"), root, look)):
            if file in contents or file in found:
                continue
            if len(found) == most:
                return found
            try:
                found[file] = file.read_bytes()
            except OSError:
                continue  # nobody asked for it
            queue.append((file, found[file]))
    return found


def files_imported(path: Path, text: str, root: Path, look: Callable[[str, Path, Path], Path | None]) -> Iterator[Path]:
    inside = path.parent.relative_to(root).parts if path.is_relative_to(root) else ()
    for name in imported_names(text, ".".join(inside)):
        file = look(name, path.parent, root)
        if file is not None:
            yield file


def file_of(dotted: str, folder: Path, root: Path) -> Path | None:
    """The file of a module, or of the module that a name is in, looked for as `Project.find` does."""
    parts = dotted.split(".")
    above = [folder, *folder.parents] if folder.is_relative_to(root) else [folder]
    searched = [place for place in above if place.is_relative_to(root) or place is folder]
    for place in [*searched, root / "src"]:
        for cut in range(len(parts), 0, -1):
            stem = os.path.join(place, *parts[:cut])
            for file in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                if os.path.isfile(file) and not os.path.islink(file):
                    return Path(file)
    return None
