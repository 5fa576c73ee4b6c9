"""Text of other people's files, so that a reader sees what is there: no invisible or reordering characters."""

from __future__ import annotations

import re

from xlaport.errors import one_line

UNBROKEN = re.compile(r"[^\t\n]+")


def visible(text: str) -> str:
    """With control, format and bidirectional characters, lone surrogates and odd blanks as Python escapes them (`\\u202e`). Lines and tabs stay."""
    return text if text.isprintable() else UNBROKEN.sub(lambda found: one_line(found[0]), text)


def line(text: str) -> str:
    """On one line: blanks of any kind are one."""
    return visible(" ".join(text.split()))
