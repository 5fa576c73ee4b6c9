"""A virtual environment that holds named packages, made once and used again: for generators and tests.

torch and its backends exclude each other, so what reads the packages of a target cannot run where xlaport is developed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

TORCH = {"torch-tpu": {"0.2.0": "2.13.0"}, "torch_xla": {"2.9.0": "2.9.0"}}
"""Package -> its release -> the torch it is read beside."""

EXTRAS = {"torch-tpu": ("expecttest",), "torch_xla": ()}
"""What torch's test tables need."""


class NotInstalled(Exception):
    """The packages could not be installed: the last line of what pip said."""


def packages(name: str, version: str) -> tuple[str, ...]:
    """What an environment for a release of a backend holds."""
    torch = TORCH[name].get(version, next(iter(TORCH[name].values())))
    return (f"torch=={torch}", f"{name}=={version}", *EXTRAS[name])


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def made(folder: Path, wanted: tuple[str, ...]) -> Path:
    """The Python of an environment in `folder` that holds the packages. Raises `NotInstalled`, and leaves nothing then.

    torch comes in its build for the CPU where pip finds one (`torch==2.13.0+cpu`): a tenth of the CUDA build.
    """
    finished = folder / "installed.txt"
    if finished.is_file() and finished.read_text(encoding="utf-8").split() == list(wanted):
        return python_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    venv.EnvBuilder(with_pip=True).create(folder)
    torch, *others = wanted
    try:
        said = first_that_installs(folder, (f"{torch}+cpu", torch), others)
        if said:
            raise NotInstalled(said)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finished.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return python_of(folder)


def first_that_installs(folder: Path, torches: tuple[str, ...], others: list[str]) -> str:
    """Empty when one of them was installed with the other packages, else what pip said of the last."""
    said = ""
    for torch in torches:
        command = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", torch, *others]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if not done.returncode:
            return ""
        said = next(iter(reversed(done.stderr.strip().splitlines())), f"pip ended with {done.returncode}")
    return said


def runs(python: Path, *arguments: str, timeout: float, **variables: str) -> str:
    """The standard output of a program in such an environment. Raises `subprocess.CalledProcessError`."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**inherited, "TPU_SKIP_MDS_QUERY": "1", "PYTHONNOUSERSITE": "1", **variables}
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, env=environment, timeout=timeout, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
    done.check_returncode()
    return done.stdout
