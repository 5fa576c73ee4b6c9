"""Sections of documents that a generator owns: replaced between their markers, all else kept."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def replaced(text: str, begin: str, end: str, generated: str) -> str:
    """`text` with what stands between two markers replaced. Raises `ValueError` when a marker is missing."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"there is no {begin} ... {end}")
    return f"{before}{begin}{generated}{end}{after}"


def main(document: Path, renewed: Callable[[str], str], arguments: list[str] | None) -> int:
    """The command line of a generator: `renewed` gives the document's text as it should be."""
    parser = argparse.ArgumentParser(description=f"write the generated section of {document.name}")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if the section is out of date")
    options = parser.parse_args(arguments)
    text = document.read_text(encoding="utf-8")
    wanted = renewed(text)
    if options.check:
        return int(text != wanted)
    document.write_text(wanted, encoding="utf-8")
    return 0
