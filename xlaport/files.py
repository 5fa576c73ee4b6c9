"""Which files a run looks at, and how a result is put on disk."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from xlaport.errors import UserError, cause_of

ALWAYS_SKIPPED = frozenset(
    {
        ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "node_modules", "__pycache__",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", "site-packages", ".eggs",
    }
)
MAX_BYTES = 2_000_000
"""Larger Python files are generated data: parsing one costs a second and 300 MB of nodes."""


OTHER_REPOSITORY = "left as git submodule"
"""Why a submodule is skipped: its files belong to another history. Also a repository that was cloned into the tree."""

CLOSED_TO_GIT = re.compile(r"^warning: could not open directory '(.*?)/?': (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Tree:
    """A root directory (or the parent of a single file) and the files found below it.

    `files` are absolute, sorted, without duplicates. `skipped` are (file or folder, reason), `unreadable` likewise.
    `other_repositories` are the files of git submodules: they belong to the tree, and are not looked at.
    """

    root: Path
    files: tuple[Path, ...]
    skipped: tuple[tuple[Path, str], ...] = ()
    unreadable: tuple[tuple[Path, str], ...] = ()
    other_repositories: tuple[Path, ...] = ()


def find(paths: list[Path]) -> Tree:
    """Files below `paths`: those git tracks or would track where there is a work tree, else all.

    Links are never followed. Raises `UserError` for a path that does not exist or cannot be listed.
    """
    for path in paths:
        if not os.path.lexists(path):
            raise UserError(f"{path}: no such file or directory")
        refuse_unlistable(path)
    root = common_root(paths)
    named = {absolute(path) for path in paths}
    files: dict[Path, None] = {}
    skipped: dict[Path, str] = {}
    unreadable: dict[Path, str] = {}
    others: dict[Path, None] = {}
    for path in paths:
        for file in map(absolute, walk(path, unreadable)):
            reason = skip_reason(file, root)
            if not reason:
                files[file] = None
            elif file not in named:
                skipped[file] = reason
                others |= dict.fromkeys(below(file, unreadable) if is_folder(file) else ())
    return Tree(
        root, tuple(sorted(files)), tuple(sorted(skipped.items())),
        tuple(sorted((absolute(path), reason) for path, reason in unreadable.items())), tuple(sorted(others.keys() - files.keys())),
    )


def refuse_unlistable(path: Path) -> None:
    """A folder the user named must be one that can be listed."""
    try:
        if path.is_dir():
            os.scandir(path).close()
    except OSError as error:
        raise UserError(f"{path}: {cause_of(error)}") from None


def common_root(paths: list[Path]) -> Path:
    folders = [absolute(p) if p.is_dir() else absolute(p).parent for p in paths]
    return Path(os.path.commonpath(folders))


def absolute(path: Path) -> Path:
    """Absolute without resolving links: a link must stay recognisable as one."""
    return Path(os.path.abspath(path))


def is_folder(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def walk(path: Path, unreadable: dict[Path, str]) -> Iterator[Path]:
    """What is below a folder the user named, be it through a link; links found on the way are not followed.

    Folders below it that cannot be listed are added to `unreadable`, with the reason.
    """
    if not path.is_dir():
        yield path
        return
    listed = git_files(path, unreadable)
    if listed is not None:
        yield from listed
        return
    yield from walk_plain(path, unreadable)


def below(repository: Path, unreadable: dict[Path, str]) -> Iterator[Path]:
    """The files of a repository and of those in it. One that is not checked out has none, or files git knows nothing of."""
    listed = walk if (repository / ".git").exists() else walk_plain
    for file in map(absolute, listed(repository, unreadable)):
        if is_folder(file):
            yield from below(file, unreadable)
        else:
            yield file


def walk_plain(path: Path, unreadable: dict[Path, str]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError as error:
        unreadable[path] = cause_of(error)
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in ALWAYS_SKIPPED and not is_virtual_environment(entry.path):
                yield from walk_plain(Path(entry.path), unreadable)
        else:
            yield Path(entry.path)


def is_virtual_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def git(folder: Path, *words: str):
    """A completed process of git in a folder, in plain English; None where there is no git."""
    import subprocess  # here, as a file that is named needs none: 4 ms

    try:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return None


def git_files(path: Path, unreadable: dict[Path, str]) -> list[Path] | None:
    """Tracked and untracked-but-not-ignored files below `path`, and folders that are repositories of their own; None outside a work tree."""
    done = git(path, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if done is None or done.returncode != 0:
        return None
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    if not names:
        return None  # an ignored folder of a larger work tree: the user asked for it by name
    for folder, reason in CLOSED_TO_GIT.findall(os.fsdecode(done.stderr)):
        unreadable[path / folder] = reason.lower()
    existing = (path / name for name in names if not ALWAYS_SKIPPED.intersection(name.split("/")))
    return [file for file in existing if is_there(file, unreadable)]


def is_there(file: Path, unreadable: dict[Path, str]) -> bool:
    """Git also lists files that were deleted, and those in folders that have become unreadable."""
    try:
        file.lstat()
    except PermissionError as error:
        unreadable[file.parent] = cause_of(error)
        return False
    except OSError:
        return False
    return True


def skip_reason(file: Path, root: Path) -> str | None:
    """Why a file is not looked at; what stands before a colon or comma is the kind of reason."""
    if os.path.islink(file):
        if not os.path.exists(file):
            return "linked to nothing"
        return f"linked {'in' if points_into(file, root) else 'out of'} the tree: edit what it points to"
    try:
        found = file.stat()
    except OSError:
        return None  # reading it says why
    if stat.S_ISDIR(found.st_mode):
        return f"{OTHER_REPOSITORY}: name its path too to have it migrated"
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    if file.suffix in {".py", ".pyi"} and found.st_size > MAX_BYTES:
        return f"larger than {MAX_BYTES // 1_000_000} MB, taken for generated"
    return None


def points_into(link: Path, root: Path) -> bool:
    return Path(os.path.realpath(root)) in Path(os.path.realpath(link)).parents


def write_changed(path: Path, before: bytes, after: bytes) -> str:
    """Put an edited file in place of the one that was read. Why it was not, if it was not; else empty."""
    try:
        if path.read_bytes() != before:
            return "changed on disk while xlaport worked; left as it is"
        write_atomically(path, after)
    except OSError as error:
        return f"cannot be written: {cause_of(error)}"
    return ""


def write_atomically(path: Path, raw: bytes, mode: int | None = None) -> None:
    """Replace `path` by `raw` in one step, keeping mode bits; on any failure the old file stays.

    Raises `OSError` when the folder or the file may not be written.
    """
    with replacement(path, raw, mode):
        pass


@contextmanager
def replacement(path: Path, raw: bytes, mode: int | None = None) -> Iterator[None]:
    """`raw` is written beside `path`, and takes its place when the block is done. Raises `OSError`."""
    if path.exists():
        mode = path.stat().st_mode & 0o7777
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    with replaced(path) as temporary:
        temporary.write_bytes(raw)
        os.chmod(temporary, mode if mode is not None else 0o666 & ~current_umask())
        yield


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file beside `path` that takes its place when the block is done, and goes when it fails or is interrupted."""
    import tempfile  # here, as most runs write nothing: 5 ms

    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        os.close(handle)
        yield Path(temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write(path: Path, raw: bytes) -> None:
    """Write what a link points to, in one step where it is a file; a pipe or terminal (`/dev/stdout`) is written to.

    Raises `OSError`.
    """
    write_all({path: raw})


def write_all(contents: dict[Path, bytes]) -> None:
    """`write` of several: every file is complete beside its place before the first takes it. Raises `OSError`; then none is replaced, unless a rename failed."""
    with ExitStack() as stack:
        for path, raw in contents.items():
            if not is_stream(path):
                stack.enter_context(replacement(Path(os.path.realpath(path)), raw))
    for path, raw in contents.items():
        if is_stream(path):
            path.write_bytes(raw)


def is_stream(path: Path) -> bool:
    """There is something that is no file, such as a pipe or terminal: it is written to, nothing takes its place."""
    return os.path.exists(path) and not os.path.isfile(path)


def refusal(path: Path) -> str:
    """Why `write` would fail; empty when it would not."""
    if os.path.isdir(path):
        return "is a directory"
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return "no such folder"
    if os.path.exists(path) and not os.access(path, os.W_OK) or not is_stream(path) and not os.access(folder, os.W_OK | os.X_OK):
        return "permission denied"
    return ""


def copy_over(path: Path, copy: Path, root: Path) -> None:
    """Copy a file of the tree below `root`. A link becomes the same link when it stays in the tree; what else there is stays behind.

    Raises `OSError`.
    """
    if copy.is_symlink():
        copy.unlink()  # writing would go through it
    if path.is_symlink():
        if not os.path.isabs(os.readlink(path)) and points_into(path, root):
            copy.symlink_to(os.readlink(path))
    elif path.is_file():
        with replaced(copy) as temporary:
            import shutil  # here, as only `--out` copies: 2 ms

            shutil.copy2(path, temporary)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def unstaged(paths: list[Path]) -> list[Path]:
    """Those of `paths` with changes git has not staged; empty outside a work tree."""
    dirty = {changed for top in map(work_tree, {path.parent for path in paths}) if top for changed in changed_in(top)}
    return [path for path in paths if path.resolve() in dirty]


def work_tree(folder: Path) -> Path | None:
    """The nearest folder upwards that git keeps: a submodule has changes of its own, which the repository around it does not list."""
    return next((top for top in (folder.resolve(), *folder.resolve().parents) if (top / ".git").exists()), None)


def changed_in(top: Path) -> set[Path]:
    done = git(top, "diff", "--name-only", "-z")
    return set() if done is None else {(top / os.fsdecode(name)).resolve() for name in done.stdout.split(b"\0") if name}
