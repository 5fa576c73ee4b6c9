"""Errors a user can cause. Everything else is a bug and keeps its traceback."""


class UserError(Exception):
    """Bad input or a refused request: printed as one line, exit status 2."""


def one_line(text: str) -> str:
    """For a terminal: a line break or an escape sequence in the name of a file is shown as Python writes it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def cause_of(error: OSError) -> str:
    """What the system says, as a sentence goes on."""
    return (error.strerror or str(error)).lower()


class NotRewritable(Exception):
    """A file libcst cannot parse or does not give back byte for byte, or whose edits do not fit together: it is left alone."""
