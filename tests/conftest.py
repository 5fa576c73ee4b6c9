import signal
from pathlib import Path

import pytest

from xlaport import engine

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell that starts the tests in the background has them ignore Ctrl-C, and so would what they start."""


@pytest.fixture(autouse=True, scope="session")
def rule_errors_are_raised():
    """A rule that fails must fail the test instead of becoming a finding."""
    engine.RAISE_RULE_ERRORS = True


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory, and a cache that no other test has."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder
