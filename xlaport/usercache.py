"""Where answers of earlier runs are kept: in the user's folder, never in the project, where a stranger could have put some."""

from __future__ import annotations

import os
from pathlib import Path


def folder(*parts: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").joinpath("xlaport", *parts)


def write(text: str, *parts: str) -> None:
    """Keep a text in a file of the folder, in one step. Raises OSError."""
    file = folder(*parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{os.getpid()}")  # a name of its own; `tempfile` takes 5 ms to import
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, file)
