"""Lines of a log: any encoding, any size, in bounded memory."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

CHUNK = 1 << 16
"""Characters read at a time."""

LONGEST = 1 << 16
"""Characters of a line that are looked at in one piece; a longer one is cut with `OVERLAP` characters in both pieces."""

OVERLAP = 2_000

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True)
class Line:
    """`number` counts line feeds from 1, as an editor does: what a progress bar wrote over itself has one number."""

    number: int
    text: str


def lines_of(stream: BinaryIO) -> Iterator[Line]:
    """The lines of a byte stream, without colours. Bytes that are no text become U+FFFD."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[arg-type]
    text = io.TextIOWrapper(buffered, encoding=encoding_of(buffered.peek(CHUNK)), errors="replace", newline="")
    try:
        yield from split(text)
    finally:
        text.detach()


def encoding_of(start: bytes) -> str:
    """From the byte order mark, or from the zeros of UTF-16 without one. UTF-8 otherwise."""
    for mark in sorted(MARKS, key=len, reverse=True):
        if start.startswith(mark):
            return MARKS[mark]
    sample = start[:1000]
    if sample.count(0) > len(sample) // 3:
        return "utf-16-le" if sample[1::2].count(0) >= sample[::2].count(0) else "utf-16-be"
    return "utf-8"


def split(stream: io.TextIOBase) -> Iterator[Line]:
    number, rest = 1, ""
    while chunk := stream.read(CHUNK):
        *whole, rest = (rest + chunk).split("\n")
        for text in whole:
            yield from pieces(number, text)
            number += 1
        head, carriage, tail = rest[:-1].rpartition("\r")
        if carriage:
            yield from pieces(number, head)
            rest = tail + rest[-1:]
        if len(rest) > LONGEST:
            yield from pieces(number, rest)
            rest = rest[-OVERLAP:]
    if rest:
        yield from pieces(number, rest)


def pieces(number: int, text: str) -> Iterator[Line]:
    """A line as the lines a terminal showed. Log services keep whole tracebacks in one string of JSON: that is opened, too."""
    text = ESCAPES.sub("", text) if "\x1b" in text else text
    if "\\n" in text and text.lstrip().startswith("{"):
        text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")
    for part in re.split(r"[\r\n]", text.rstrip("\r")):
        for start in range(0, max(1, len(part)), LONGEST - OVERLAP):
            if start == 0 or len(part) - start > OVERLAP:
                yield Line(number, part[start : start + LONGEST])
