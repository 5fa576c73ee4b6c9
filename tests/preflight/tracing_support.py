"""Tracing the programs of these tests, and finding their lines. A trace is a process of some seconds, so equal ones are shared."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

from xlaport.preflight.tracing import Factory, Script, Traced, Tracer, Untraced

PROGRAMS = Path(__file__).resolve().parent / "programs"
SMALL, TRAIN = PROGRAMS / "small.py", PROGRAMS / "train.py"


@cache
def shared() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="xlaport-traces-")


def folder() -> Path:
    return Path(tempfile.mkdtemp(dir=shared().name))


@cache
def tracer(function: str, **arguments: object) -> Tracer:
    """Remembers what it traced."""
    return Tracer(Factory(f"{SMALL}:{function}", arguments), folder(), Path(sys.executable), 300)


def step(function: str, **arguments: object) -> Traced:
    found = tracer(function, **arguments).trace(1, 1)
    assert isinstance(found, Traced), found.reason
    return found


def refused(function: str, **arguments: object) -> Untraced:
    found = tracer(function, **arguments).trace(1, 1)
    assert isinstance(found, Untraced)
    return found


def ran(mood: str, *words: str, steps: int = 64, seconds: float = 300) -> Traced | Untraced:
    return Tracer(Script(str(TRAIN), ("--mood", mood, *words), steps), folder(), Path(sys.executable), seconds).trace(1, 1)


def line(file: Path, name: str) -> str:
    """`file:number` of the line that says `# line: name`."""
    number = next(count for count, text in enumerate(file.read_text().splitlines(), start=1) if text.endswith(f"# line: {name}"))
    return f"{file}:{number}"
