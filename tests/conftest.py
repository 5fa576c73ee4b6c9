import pytest

from xlaport import engine


@pytest.fixture(autouse=True, scope="session")
def rule_errors_are_raised():
    """A rule that fails must fail the test instead of becoming a finding."""
    engine.RAISE_RULE_ERRORS = True
