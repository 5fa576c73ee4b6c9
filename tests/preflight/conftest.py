"""Tests that compile with libtpu, in the environment that `xlaport preflight --setup` makes."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from xlaport.preflight import environment

HERE = Path(__file__).resolve().parent
TRACES = "torch"
"""Fixtures and tests with this word in the name of their file need torch and torch_xla too."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for_slow = "slow" in (config.option.markexpr or "")
    ready = environment.is_ready(environment.NEWEST)
    missing = find_spec("torch_xla") is None
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.preflight)
        if not ready:
            item.add_marker(pytest.mark.skip(reason="the TPU compiler is not set up: xlaport preflight --setup"))
        elif "slow" in item.keywords and not asked_for_slow:
            item.add_marker(pytest.mark.skip(reason="takes minutes: -m slow"))
        elif missing and TRACES in item.path.stem:
            item.add_marker(pytest.mark.skip(reason="torch_xla is not installed: pip install '.[xla]'"))


@pytest.fixture(scope="session")
def compiler() -> environment.Compiler:
    return environment.find(environment.NEWEST)
