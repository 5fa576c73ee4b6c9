"""Errors a user can cause. Everything else is a bug and keeps its traceback."""


class UserError(Exception):
    """Bad input or a refused request: printed as one line, exit status 2."""
