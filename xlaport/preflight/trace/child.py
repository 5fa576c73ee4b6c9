"""Start of the trace child: the request says which route; the answer is the program and what was seen on the way."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

from xlaport.preflight import children

STARTED = time.monotonic()


def main(folder: Path) -> None:
    leave(folder, traced(children.read(folder / children.REQUEST), folder))


def traced(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from xlaport.errors import UserError
    from xlaport.preflight.trace import factory, script

    try:
        return script.capture(request, folder) if request["route"] == "script" else factory.trace(request, folder)
    except UserError as error:
        return {"status": "error", "error": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"status": "error", "error": raised(error)}


def raised(error: BaseException) -> str:
    """An exception of the user's code as one line, with the innermost line that is the user's."""
    from xlaport.preflight.trace import lines

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if lines.is_users(frame.filename)]
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}{': ' + said if said else ''}{at}"


def leave(folder: Path, answer: dict[str, Any]) -> None:
    """Write the answer and end at once: the user's program may hold threads and workers that would keep the process."""
    from importlib import metadata

    versions = {name: metadata.version(name) for name in ("torch", "torch_xla")}
    children.leave(folder, answer | versions | {"seconds": time.monotonic() - STARTED})
