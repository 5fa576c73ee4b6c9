"""Start of the trace child: the request says which route; the answer is the program and what was seen on the way."""

from __future__ import annotations

import importlib
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from xlaport.preflight import children

STARTED = time.monotonic()


def main(folder: Path) -> None:
    leave(folder, traced(children.read(folder / children.REQUEST), folder))


@dataclass(frozen=True)
class Route:
    """The module beside this one whose `trace` answers, and what it needs in the user's environment."""

    module: str
    packages: tuple[str, ...]


ROUTES = {"script": Route("script", ("torch", "torch_xla")), "factory": Route("factory", ("torch", "torch_xla")), "torchax": Route("jitted", ("torch", "torchax", "jax", "optax"))}


def traced(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from xlaport.errors import UserError

    route = ROUTES[request["route"]]
    try:
        return importlib.import_module(f"xlaport.preflight.trace.{route.module}").trace(request, folder)
    except UserError as error:
        return {"status": "error", "error": str(error)}
    except Exception as error:
        traceback.print_exc()
        if isinstance(error, ModuleNotFoundError) and error.name in route.packages:
            return {"status": "error", "error": f"{error.name} is not installed there (needed: {', '.join(route.packages)}); --python names the environment that has it"}
        return {"status": "error", "error": raised(error)}


def raised(error: BaseException) -> str:
    """An exception of the user's code as one line, with the innermost line that is the user's."""
    from xlaport.preflight.trace import lines

    at = lines.raised_at(error)
    said = (str(error).strip().splitlines() or [""])[0][: children.MOST_SAID]
    return f"{type(error).__name__}{': ' + said if said else ''}{' at ' + at if at else ''}"


def leave(folder: Path, answer: dict[str, Any]) -> None:
    """Write the answer and end at once: the user's program may hold threads and workers that would keep the process."""
    versions = {}
    for name in ("torch", "torch_xla", "torchax"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    children.leave(folder, versions | answer | {"seconds": time.monotonic() - STARTED})
