"""Which files a run looks at, and how a result is put on disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xlaport.errors import UserError

ALWAYS_SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "node_modules", "__pycache__",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", "site-packages", ".eggs",
    }
)
MAX_BYTES = 2_000_000
"""Larger Python files are generated data: parsing one costs a second and 300 MB of nodes."""


@dataclass(frozen=True)
class Tree:
    """A root directory (or the parent of a single file) and the files found below it.

    `files` are absolute, sorted, without duplicates. `skipped` are (file, reason).
    """

    root: Path
    files: tuple[Path, ...]
    skipped: tuple[tuple[Path, str], ...] = ()


def find(paths: list[Path]) -> Tree:
    """Files below `paths`: those git tracks or would track where there is a work tree, else all.

    Links are never followed. Raises `UserError` for a path that does not exist or cannot be listed.
    """
    for path in paths:
        if not os.path.lexists(path):
            raise UserError(f"{path}: no such file or directory")
    root = common_root(paths)
    files: dict[Path, None] = {}
    skipped: list[tuple[Path, str]] = []
    for path in paths:
        for file in walk(path):
            reason = skip_reason(file)
            if reason:
                skipped.append((absolute(file), reason))
            else:
                files[absolute(file)] = None
    return Tree(root, tuple(sorted(files)), tuple(sorted(set(skipped))))


def common_root(paths: list[Path]) -> Path:
    folders = [absolute(p) if p.is_dir() else absolute(p).parent for p in paths]
    return Path(os.path.commonpath(folders))


def absolute(path: Path) -> Path:
    """Absolute without resolving links: a link must stay recognisable as one."""
    return Path(os.path.abspath(path))


def walk(path: Path) -> Iterator[Path]:
    """What is below a folder the user named, be it through a link; links found on the way are not followed."""
    if not path.is_dir():
        yield path
        return
    listed = git_files(path)
    if listed is not None:
        yield from listed
        return
    yield from walk_plain(path)


def walk_plain(path: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror.lower()}") from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in ALWAYS_SKIPPED and not is_virtual_environment(entry.path):
                yield from walk_plain(Path(entry.path))
        else:
            yield Path(entry.path)


def is_virtual_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def git_files(path: Path) -> list[Path] | None:
    """Tracked and untracked-but-not-ignored files below `path`; None outside a work tree."""
    try:
        done = subprocess.run(
            ["git", "-C", str(path), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=False,
        )
    except OSError:
        return None
    if done.returncode != 0:
        return None
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    if not names:
        return None  # an ignored folder of a larger work tree: the user asked for it by name
    existing = (path / name for name in names if not ALWAYS_SKIPPED.intersection(name.split("/")))
    return [file for file in existing if os.path.lexists(file)]


def skip_reason(file: Path) -> str | None:
    if file.is_symlink():
        return "a link: edit the file it points to"
    if not file.is_file():
        return "not a regular file"
    if file.suffix in {".py", ".pyi"} and file.stat().st_size > MAX_BYTES:
        return f"larger than {MAX_BYTES // 1_000_000} MB, taken for generated"
    return None


def write_atomically(path: Path, raw: bytes, mode: int | None = None) -> None:
    """Replace `path` by `raw` in one step, keeping mode bits; on any failure the old file stays.

    Raises `OSError` when the folder or the file may not be written.
    """
    if path.exists():
        mode = path.stat().st_mode & 0o7777
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
        os.chmod(temporary, mode if mode is not None else 0o666 & ~current_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def copy_over(path: Path, copy: Path, root: Path) -> None:
    """Copy a file of the tree below `root`. A link becomes the same link when it stays in the tree; what else there is stays behind.

    Raises `OSError`.
    """
    if copy.is_symlink():
        copy.unlink()  # writing would go through it
    if path.is_symlink():
        if not os.path.isabs(os.readlink(path)) and root.resolve() in path.resolve().parents:
            copy.symlink_to(os.readlink(path))
    elif path.is_file():
        shutil.copy2(path, copy)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def unstaged(paths: list[Path], root: Path) -> list[Path]:
    """Those of `paths` with changes git has not staged; empty outside a work tree."""
    try:
        top = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--show-toplevel"], capture_output=True, check=False, text=True
        )
        if top.returncode != 0:
            return []
        done = subprocess.run(
            ["git", "-C", str(root), "diff", "--name-only", "-z"], capture_output=True, check=False
        )
    except OSError:
        return []
    base = Path(top.stdout.rstrip("\n"))
    dirty = {base / os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
    real = {entry.resolve() for entry in dirty}
    return [path for path in paths if path.resolve() in real]
