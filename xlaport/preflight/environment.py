"""The compiler's environment: jax, jaxlib and libtpu at pinned versions, made once, never in the user's own.

libtpu in the user's environment would replace the one a TPU machine runs with, so it gets a virtual environment in the
user's data folder. `XLAPORT_COMPILER` or `--compiler FOLDER` puts it elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xlaport.errors import UserError

VARIABLE = "XLAPORT_COMPILER"
READY = "xlaport-ready"
"""A file that is written last: an environment without it was not finished."""

SIZE = "about 1.1 GB"


@dataclass(frozen=True)
class Pair:
    """Versions that were seen to work together. jaxlib drives the libtpu, partly by interfaces it does not promise to keep."""

    name: str
    jax: str
    libtpu: str

    @property
    def requirements(self) -> list[str]:
        return [f"jax=={self.jax}", f"jaxlib=={self.jax}", f"libtpu=={self.libtpu}"]

    def __str__(self) -> str:
        return f"jax {self.jax} and libtpu {self.libtpu}"


NEWEST = Pair("jax-0.10.2-libtpu-0.0.52", "0.10.2", "0.0.52")
"""Knows tpu7x, counts arguments when memory runs out, and needs half of the host memory of the other."""

OF_TORCH_XLA = Pair("jax-0.7.1-libtpu-0.0.21", "0.7.1", "0.0.21")
"""What torch_xla 2.9.0 pins (its extras `tpu` and `pallas`): the compiler that a TPU machine with it runs."""

PAIRS = (NEWEST, OF_TORCH_XLA)


@dataclass(frozen=True)
class Compiler:
    """An environment that is ready."""

    pair: Pair
    folder: Path

    @property
    def python(self) -> Path:
        return python_in(self.folder)


def python_in(folder: Path) -> Path:
    return folder / "bin" / "python"


def base_folder(given: Path | None = None) -> Path:
    """Where the environments of all pairs are."""
    if given:
        return given.absolute()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "xlaport" / "compiler"


def folder_of(pair: Pair, given: Path | None = None) -> Path:
    return base_folder(given) / pair.name


def find(pair: Pair, given: Path | None = None) -> Compiler:
    """The environment of a pair; raises `UserError` that says what to run when it is missing or damaged."""
    folder = folder_of(pair, given)
    setup = "xlaport preflight --setup" + (" --match-torch-xla" if pair is OF_TORCH_XLA else "")
    if not (folder / READY).exists():
        raise UserError(f"the TPU compiler is not set up: `{setup}` installs {pair} ({SIZE}) into {folder}, once")
    missing = [name for name in pair.requirements if not installed(folder, name)]
    if missing or not python_in(folder).exists():
        raise UserError(f"{', '.join(missing) or 'python'} is missing from the TPU compiler's environment {folder}: run `{setup}` again")
    return Compiler(pair, folder)


def is_ready(pair: Pair, given: Path | None = None) -> bool:
    try:
        find(pair, given)
    except UserError:
        return False
    return True


def installed(folder: Path, requirement: str) -> bool:
    """Is exactly this version in the environment? Looks at the names of folders, starts nothing."""
    name, _, version = requirement.partition("==")
    return any(folder.glob(f"lib/python*/site-packages/{name}-{version}.dist-info"))


def setup(pair: Pair, given: Path | None = None) -> Compiler:
    """Make the environment of a pair, or make it again; raises `UserError` with pip's reason when that fails.

    Needs a package index, as pip is configured. Takes about 15 s with a fast one.
    """
    folder = folder_of(pair, given)
    with locked(folder):
        if is_ready(pair, given):
            return find(pair, given)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            run([sys.executable, "-m", "venv", str(folder)], "a virtual environment could not be made")
            run([str(python_in(folder)), "-m", "pip", "install", "--quiet", *pair.requirements], f"{pair} could not be installed")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / READY).touch()
    return find(pair, given)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time makes an environment; another waits and finds it made."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.parent / f"{folder.name}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise UserError(f"{folder.parent}: {error.strerror or error}; name another folder with {VARIABLE} or --compiler") from None


def run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{failure}: {reason(done.stderr or done.stdout)}")


UNREACHABLE = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Network is unreachable")


def reason(output: str) -> str:
    """What went wrong, by pip's output: its first error, or the last line.

    Without an index pip's error is that there is no such version, and only its warnings, if any, say why.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith(("ERROR:", "Error:"))]
    first = (errors or lines[-1:] or ["no reason given"])[0]
    if UNREACHABLE.search(output):
        return f"the package index cannot be reached, so pip says: {first}"
    return f"the package index cannot be reached or is empty, so pip says: {first}" if "from versions: none" in first else first
