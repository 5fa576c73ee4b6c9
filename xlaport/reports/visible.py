"""Text of other people's files, so that a reader sees what is there: no invisible or reordering characters."""

from __future__ import annotations


def visible(text: str) -> str:
    """With control, format and bidirectional characters, lone surrogates and odd blanks as Python escapes them (`\\u202e`). Lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\t\n" else char.encode("unicode_escape").decode("ascii") for char in text)


def line(text: str) -> str:
    """On one line: blanks of any kind are one."""
    return visible(" ".join(text.split()))
