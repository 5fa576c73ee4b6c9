"""Tests beside a real torch-tpu, in an environment of their own: it excludes the torch of torch_xla. No TPU is needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from xlaport import usercache

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
RELEASE = "0.2.0"
PYTHON = "XLAPORT_TORCHTPU_PYTHON"
"""Names the Python of an environment that has torch-tpu and expecttest; without it one is made, and kept in the user's cache."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for_slow = "slow" in (config.option.markexpr or "")
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.torchtpu)
        if "slow" in item.keywords and not asked_for_slow:
            item.add_marker(pytest.mark.skip(reason="takes minutes: -m slow"))


@pytest.fixture(scope="session")
def tpu_python() -> Path:
    """The Python of an environment with the pinned torch-tpu; the first run installs it (about 400 MB)."""
    import fresh_environment

    if PYTHON in os.environ:
        return Path(os.environ[PYTHON])
    folder = usercache.folder("environments", f"torch-tpu-{RELEASE}-python{sys.version_info.major}.{sys.version_info.minor}")
    try:
        return fresh_environment.made(folder, fresh_environment.packages("torch-tpu", RELEASE))
    except fresh_environment.NotInstalled as error:
        pytest.skip(f"torch-tpu {RELEASE} could not be installed: {error}")
