"""Errors a user can cause. Everything else is a bug and keeps its traceback."""


class UserError(Exception):
    """Bad input or a refused request: printed as one line, exit status 2."""


class NotRewritable(Exception):
    """A file libcst cannot parse or does not give back byte for byte, or whose edits do not fit together: it is left alone."""
