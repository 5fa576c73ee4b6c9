"""Tests that compile with libtpu: with the compiler that `xlaport preflight --setup` made, or in an environment made here once, in the user's cache folder."""

import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from xlaport import usercache
from xlaport.errors import UserError
from xlaport.preflight import environment

HERE = Path(__file__).resolve().parent
TRACES = "torch"
"""Fixtures and tests with this word in the name of their file need torch and torch_xla too."""

TORCHAX = ("torchax==0.0.13", f"jax=={environment.NEWEST.jax}", "optax==0.2.8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for_slow = "slow" in (config.option.markexpr or "")
    missing = find_spec("torch_xla") is None
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.preflight)
        if "slow" in item.keywords and not asked_for_slow:
            item.add_marker(pytest.mark.skip(reason="takes minutes: -m slow"))
        elif missing and TRACES in item.path.stem:
            item.add_marker(pytest.mark.skip(reason="torch_xla is not installed: pip install '.[xla]'"))


@pytest.fixture(scope="session")
def compiler() -> environment.Compiler:
    """What the tests of this folder compile with; where no index answers they are left out, and the reason says so."""
    if not environment.is_ready(environment.NEWEST):
        os.environ[environment.VARIABLE] = str(usercache.folder("compiler"))
    try:
        return environment.setup(environment.NEWEST)
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def set_up(compiler: environment.Compiler) -> None:
    """Commands that tests start find the compiler too."""


@pytest.fixture(scope="session")
def torchax_python() -> Path:
    """A Python with torchax, and the torch of this one. torch_xla brings an old torchax along, so both cannot be installed in one place."""
    folder = usercache.folder("torchax")
    python = folder / "bin" / "python"
    if not (folder / environment.READY).exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        done = subprocess.run([str(python), "-m", "pip", "install", "--quiet", *TORCHAX], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"torchax could not be installed: {environment.reason(done.stderr)}")
        (folder / environment.READY).touch()
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")  # an earlier run's may be gone
    return python


@pytest.fixture(scope="module")
def run(tmp_path_factory, compiler):
    """Runs the verb; answers are kept for this module, so that a step is compiled once."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "XDG_CACHE_HOME": str(cache)}
        return subprocess.run([sys.executable, "-m", "xlaport", "preflight", *arguments], capture_output=True, text=True, env=environment, timeout=3600)

    return run
