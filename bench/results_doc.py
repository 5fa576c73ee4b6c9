"""Sections of docs/results.md that a bench owns: replaced between their markers, all else kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results.md"
HEADER = "# Results\n\nMeasured by the programs in `bench/`; each section names the command that wrote it.\n"


def replace_section(name: str, body: str, path: Path = RESULTS) -> None:
    """Put `body` between the markers of section `name`; a new section goes to the end of the file."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    section = f"{begin}\n{body.strip()}\n{end}"
    text = path.read_text(encoding="utf-8") if path.exists() else HEADER
    before, found, rest = text.partition(begin)
    if not found:
        text = f"{text.rstrip()}\n\n{section}\n"
    else:
        _, closed, after = rest.partition(end)
        if not closed:
            raise ValueError(f"{path}: {begin} is not closed by {end}")
        text = before + section + after
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells are escaped, newlines become spaces."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    lines += [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
