"""Packages: which are there, and whether they belong together. Nothing is imported; versions are those of the packages' metadata."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from xlaport.doctor.check import Check, Surroundings, error, ok, warning
from xlaport.errors import UserError
from xlaport.projectfiles.packages import normalized, version

TABLE = Path(__file__).resolve().parent.parent / "data" / "versions_together.json"
CLAUSE = re.compile(r"(==|>=|<=|<|>)\s*([\d.]+)(\.\*)?")
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
OLDEST_PYTHON = (3, 10)
"""Of torch 2.9 and torch_xla 2.9."""

ASK = (
    "import json, sys; from importlib import metadata; "
    "print(json.dumps([sys.version_info[:2], [(d.metadata['Name'] or '', d.version) for d in metadata.distributions()]]))"
)
"""Run in another Python, to say what it has."""

ANSWER_SECONDS = 60.0


def installed_in(python: Path) -> tuple[tuple[int, int], dict[str, str]]:
    """Version of a Python, given by an absolute path, and its packages by normalized name. Raises `UserError` when it does not answer."""
    if python == Path(sys.executable).absolute():
        return sys.version_info[:2], by_name((dist.metadata["Name"] or "", dist.version) for dist in metadata.distributions())
    try:
        answer = subprocess.run([str(python), "-I", "-c", ASK], capture_output=True, text=True, timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL)
        (major, minor), packages = json.loads(answer.stdout)
    except OSError as failure:
        raise UserError(f"{python}: {failure.strerror or failure}") from None
    except (subprocess.TimeoutExpired, ValueError):
        raise UserError(f"{python}: does not say which packages it has; is it a Python of 3.8 or later?") from None
    return (major, minor), by_name(packages)


def by_name(packages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Versions by normalized name, written as modules are: `torch_xla`."""
    return {normalized(name).replace("-", "_"): release for name, release in packages}


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def check_python(here: Surroundings) -> Iterator[Check]:
    shown = ".".join(map(str, here.python_version))
    if here.python_version < OLDEST_PYTHON:
        yield error("python", f"Python {shown}: torch 2.9 and torch_xla 2.9 need 3.10", "make an environment with Python 3.11: python3.11 -m venv .venv")
    else:
        yield ok("python", f"Python {shown} ({here.python})")


def check_backend(here: Surroundings) -> Iterator[Check]:
    """A TPU backend is there, and only one."""
    present = [entry for entry in table()["sets"] if entry["package"] in here.installed]
    for apart in table()["apart"]:
        if all(name in here.installed for name in apart["packages"]):
            yield error("backend", f"{' and '.join(apart['packages'])} are both installed: {apart['why']}", apart["mend"])
            return
    if not present:
        yield error("backend", "no TPU backend is installed: neither torch_xla nor torch_tpu", table()["sets"][0]["install"])
    for entry in present:
        name = entry["package"]
        yield ok("backend", f"{name} {here.installed[name]}")


def check_together(here: Surroundings) -> Iterator[Check]:
    """What the backend needs, and what has to fit if it is there."""
    if all(name in here.installed for name in table()["apart"][0]["packages"]):
        return  # no torch fits both
    for entry in table()["sets"]:
        have = here.installed.get(entry["package"])
        if have is None:
            continue
        if not fits(have, f"=={entry['release']}.*"):
            yield warning("versions", f"{entry['package']} {have} is not in the table, which has {entry['release']}; torch has to be of the same release", entry["install"])
            continue
        yield from needed(entry, here.installed)
        yield from companions(entry, here.installed)


def needed(entry: dict[str, Any], installed: Mapping[str, str]) -> Iterator[Check]:
    for name, clause in entry["needs"].items():
        have = installed.get(name)
        if have and fits(have, clause):
            yield ok(f"versions.{name}", f"{name} {have}, as {entry['package']} {entry['release']} needs")
        else:
            yield error(f"versions.{name}", f"{name} {have or 'is not installed'}: {entry['package']} {entry['release']} needs {clause}", entry["install"])


def companions(entry: dict[str, Any], installed: Mapping[str, str]) -> Iterator[Check]:
    for name, clause in entry["goes_with"].items():
        have = installed.get(name)
        if have and fits(have, clause):
            yield ok(f"versions.{name}", f"{name} {have}, as {entry['package']} {entry['release']} goes with")
        elif have:
            says = error if name == "libtpu" else warning
            yield says(f"versions.{name}", f"{name} {have}: {entry['package']} {entry['release']} goes with {clause}", f"pip install '{name}{clause}'")


def fits(have: str, clause: str) -> bool:
    """Is a version inside of a clause? Local parts (`+cpu`) do not count."""
    number = version(have)
    return all(holds(number, operator, version(text), bool(series)) for operator, text, series in CLAUSE.findall(clause))


def holds(number: tuple[int, ...], operator: str, wanted: tuple[int, ...], series: bool) -> bool:
    if operator == "==":
        return number[: len(wanted)] == wanted if series else padded(number, wanted) == padded(wanted, number)
    one, other = padded(number, wanted), padded(wanted, number)
    return {">=": one >= other, "<=": one <= other, "<": one < other, ">": one > other}[operator]


def padded(number: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return number + (0,) * (len(other) - len(number))


def check_cuda_wheels(here: Surroundings) -> Iterator[Check]:
    """CUDA's libraries take gigabytes, and torch's build for the CPU does without."""
    torch = here.installed.get("torch")
    nvidia = [name for name in here.installed if name.startswith("nvidia_")]
    if torch and (nvidia or "+cu" in torch):
        release = ".".join(torch.split(".")[:2])
        said = f"torch {torch} is the build for CUDA" + (f", with {len(nvidia)} packages of CUDA libraries" if nvidia else "") + ": it works, and is gigabytes larger"
        yield warning("cuda_wheels", said, f"in a fresh environment, before torch_xla: pip install 'torch=={release}.*' --index-url {CPU_WHEELS}")
    elif torch:
        yield ok("cuda_wheels", f"torch {torch} without CUDA's libraries")
