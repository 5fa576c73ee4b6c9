"""Tests that run torch_xla on XLA:CPU, in child processes."""

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = find_spec("torch_xla") is None
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.runtime)
        if missing:
            item.add_marker(pytest.mark.skip(reason="torch_xla is not installed: pip install '.[xla]'"))
