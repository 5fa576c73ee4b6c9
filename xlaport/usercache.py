"""Where answers of earlier runs are kept: in the user's folder, never in the project, where a stranger could have put some."""

from __future__ import annotations

import os
from pathlib import Path


def folder(*parts: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").joinpath("xlaport", *parts)
