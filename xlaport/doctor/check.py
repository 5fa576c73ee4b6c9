"""What a check says, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


SECONDS = 120.0
"""Time for the device to answer, unless another is given."""


class Status(str, Enum):
    OK = "ok"

    WARNING = "warning"
    """The program runs, slower or otherwise than meant."""

    ERROR = "error"
    """The program will not run on the device."""


@dataclass(frozen=True)
class Check:
    """`name` is stable, for programs; `said` is one sentence; `mend` the command or step that mends it."""

    name: str
    status: Status
    said: str
    mend: str = ""


def ok(name: str, said: str) -> Check:
    return Check(name, Status.OK, said)


def warning(name: str, said: str, mend: str) -> Check:
    return Check(name, Status.WARNING, said, mend)


def error(name: str, said: str, mend: str) -> Check:
    return Check(name, Status.ERROR, said, mend)


@dataclass(frozen=True)
class Surroundings:
    """The machine as the checks see it. `root` is `/`, or what stands for it in a test; `installed` maps normalized names to versions.

    `seconds` is the time the device may take to answer.
    """

    python: Path
    python_version: tuple[int, int]
    environment: Mapping[str, str]
    installed: Mapping[str, str]
    root: Path = Path("/")
    seconds: float = SECONDS

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")
