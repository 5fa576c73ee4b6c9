"""Text in Markdown: cells of tables and code."""

from __future__ import annotations


def cell(text: str) -> str:
    """Text for a table cell or list item: one line, with pipes escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def code_span(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
