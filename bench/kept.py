"""What a bench measured, kept for the next time it is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def kept(file: Path, measure: Callable[[], Any], fresh: bool = False) -> Any:
    """What `file` holds of an earlier time; where it does not exist, or a `fresh` one is asked for, what `measure` gives, as JSON gives it back."""
    if fresh or not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(measure()), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))
