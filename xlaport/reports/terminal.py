"""Lines for people. rich is imported only when the output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TextIO

from xlaport.errors import one_line

WIDTH = 80
"""Columns of what is wrapped or cut, on a terminal or not."""


def wrapped(text: str, hanging: str, first: str = "") -> list[str]:
    """Lines of at most `WIDTH` columns, words and flags whole; the first begins with `first`, those after it with `hanging`."""
    import textwrap  # here, as most runs wrap nothing

    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def writer(out: TextIO) -> Callable[[str, str], None]:
    """A function that prints a line in a style: through rich on a terminal, plain otherwise."""
    if not out.isatty():
        return lambda text, style: print(one_line(text), file=out)
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=False)
    return lambda text, style: console.print(Text(one_line(text), style=style))


@contextmanager
def progress(total: int):
    """A progress bar on stderr once the work has taken a second; nothing when stderr is no terminal."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda path: None
        return
    from rich.console import Console
    from rich.progress import Progress

    import time

    started = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    state = {"task": None, "done": 0}

    def advance(path) -> None:
        state["done"] += 1
        if state["task"] is None and time.monotonic() - started > 1:
            bar.start()
            state["task"] = bar.add_task("migrating", total=total, completed=state["done"])
        elif state["task"] is not None:
            bar.update(state["task"], completed=state["done"])

    try:
        yield advance
    finally:
        if state["task"] is not None:
            bar.stop()
