"""The JSON of a notebook: where the source of each code cell stands, and how another is written in its place.

nbformat 4, https://nbformat.readthedocs.io/en/latest/format_description.html: a source is one string, or a list of strings that are joined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from xlaport.source import OtherLanguage, Undecodable

BLANK = re.compile(r"[ \t\r\n]*")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
ESCAPED_LINE = re.compile(r"(?:[^\\]|\\[^n])*(?:\\n|\Z)", re.DOTALL)
DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class CodeCell:
    """`number` counts from 1 over all cells. `start:end` are the characters of its source in the JSON text."""

    number: int
    source: str
    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """What stands before, between and behind the lines of a source that is a list."""

    opening: str
    separator: str
    closing: str


@dataclass(frozen=True)
class Document:
    """A notebook in Python as its JSON text, `metadata` decoded."""

    text: str = field(repr=False)
    metadata: dict = field(repr=False)
    cells: tuple[CodeCell, ...]

    def with_sources(self, sources: Mapping[int, str]) -> str:
        """The JSON text with other sources for the cells of these numbers, and every byte outside of them as it is."""
        pieces, done = [], 0
        for cell in self.cells:
            if cell.number in sources:
                pieces += [self.text[done : cell.start], self.encoded(cell, sources[cell.number])]
                done = cell.end
        return "".join([*pieces, self.text[done:]])

    def encoded(self, cell: CodeCell, source: str) -> str:
        """A source in the form of the one it replaces; a line that was there keeps its spelling."""
        lines = LINE.findall(source)
        if self.text[cell.start] == '"':
            known = {json.loads(f'"{line}"', strict=False): line for line in ESCAPED_LINE.findall(self.text[cell.start + 1 : cell.end - 1])}
            return '"' + "".join(known.get(line) or self.quoted(line)[1:-1] for line in lines) + '"'
        known = {json.loads(item): item for item in (self.text[start:end] for _, start, end in entries(self.text, cell.start))}
        layout = self.layout(cell)
        items = layout.separator.join(known.get(line) or self.quoted(line) for line in lines)
        return f"[{layout.opening}{items}{layout.closing}]" if lines else "[]"

    def quoted(self, line: str) -> str:
        """Where all of the file is ASCII, so are new lines."""
        return json.dumps(line, ensure_ascii=self.text.isascii())

    def layout(self, cell: CodeCell) -> Layout:
        """A source of one line shows no separator, an empty one nothing: what is missing is that of the other cells."""
        spans = [(start, end) for _, start, end in entries(self.text, cell.start)]
        if not spans:
            return self.usual_layout
        opening, closing = self.text[cell.start + 1 : spans[0][0]], self.text[spans[-1][1] : cell.end - 1]
        if len(spans) > 1:
            return Layout(opening, self.text[spans[0][1] : spans[1][0]], closing)
        usual = self.usual_layout
        return Layout(opening, usual.separator if usual.opening == opening else "," + (opening or " "), closing)

    @cached_property
    def usual_layout(self) -> Layout:
        for cell in self.cells:
            if self.text[cell.start] == "[" and len(list(entries(self.text, cell.start))) > 1:
                return self.layout(cell)
        return Layout("", ", ", "")


def read(text: str) -> Document:
    """Raises `Undecodable` for what is no notebook of format 4, `OtherLanguage` for one that is not in Python."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}") from None
    if isinstance(content, dict) and isinstance(content.get("worksheets"), list):
        raise Undecodable("a notebook of format 3 or older: `jupyter nbconvert --to notebook` writes format 4")
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise Undecodable("not a notebook: it has no list of cells")
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    language = language_of(metadata)
    if language and "python" not in language.lower():
        raise OtherLanguage(f"a notebook in {language}")
    cells = tuple(code_cells(text, content["cells"]))
    return Document(text, metadata, cells)


def language_of(metadata: dict) -> str:
    """As the kernel that ran it last said, or the one it asks for; empty where neither did."""
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        named = metadata.get(section)
        if isinstance(named, dict) and isinstance(named.get(key), str):
            return named[key]
    return ""


def code_cells(text: str, cells: list) -> Iterator[CodeCell]:
    top = BLANK.match(text).end()
    _, first, _ = [entry for entry in entries(text, top) if entry[0] == "cells"][-1]  # of equal keys the last counts
    for number, (cell, (_, start, _)) in enumerate(zip(cells, entries(text, first)), 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code" or not is_source(cell.get("source")):
            continue
        _, begin, end = [entry for entry in entries(text, start) if entry[0] == "source"][-1]
        yield CodeCell(number, "".join(cell["source"]), begin, end)


def is_source(value: object) -> bool:
    return isinstance(value, str) or isinstance(value, list) and all(isinstance(line, str) for line in value)


def entries(text: str, position: int) -> Iterator[tuple[str | None, int, int]]:
    """(key, start, end) of each value in the object or array at `position` of a valid document."""
    is_object = text[position] == "{"
    position = after_blank(text, position + 1)
    while text[position] not in "}]":
        key = None
        if is_object:
            key, position = DECODER.raw_decode(text, position)
            position = after_blank(text, after_blank(text, position) + 1)
        _, end = DECODER.raw_decode(text, position)
        yield key, position, end
        position = after_blank(text, end)
        if text[position] == ",":
            position = after_blank(text, position + 1)


def after_blank(text: str, position: int) -> int:
    return BLANK.match(text, position).end()
