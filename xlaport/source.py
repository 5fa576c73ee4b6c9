"""A file as read: bytes, text, and the arithmetic between lines, characters and bytes."""

from __future__ import annotations

import codecs
import io
import tokenize
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path

BOM = b"\xef\xbb\xbf"
NOTEBOOK = ".ipynb"
PYTHON = frozenset({".py", NOTEBOOK})
"""Suffixes of what the rules read: Python files, and notebooks, whose cells are one text (`xlaport.notebook`)."""


def is_python(path: Path) -> bool:
    return path.suffix in PYTHON


class Undecodable(Exception):
    """The bytes are not text in the encoding the file declares, or not what its name promises."""


class OtherLanguage(Undecodable):
    """A notebook whose cells are not Python: there is nothing to look at, and nothing wrong."""


@dataclass(frozen=True)
class Broken:
    """A cell that does not parse, and is opaque in the text of its notebook. Lines count from 1 in that text, columns in its line."""

    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Cell:
    """Number of a cell of a notebook, counted from 1 with those that hold no code; lines of the notebook's text above it.

    `left`: characters that each of its lines has before those of the text.
    """

    number: int
    above: int
    left: int = 0


@dataclass(frozen=True)
class SourceFile:
    """One file of the run.

    `name` is the path shown to the user, with forward slashes, relative to what was asked for.
    `raw` is kept and not its text: one letter beyond latin-1 doubles the memory of a text, one emoji takes it times four
    (41 MB of files were 87 MB of texts).
    """

    path: Path
    name: str
    raw: bytes = field(repr=False)
    encoding: str = "utf-8"
    has_bom: bool = False

    @property
    def text(self) -> str:
        """Without BOM, and with every newline as it is in the file."""
        return decoded(self.raw[len(BOM):] if self.has_bom else self.raw, self.encoding)

    @property
    def code(self) -> bytes:
        """The text as bytes, for questions about the words in it."""
        return self.raw

    @property
    def broken(self) -> tuple[Broken, ...]:
        """Parts that do not parse, beside others that do."""
        return ()

    @property
    def shown(self) -> str:
        """The text as its author knows it, line for line as in `text`."""
        return self.text

    @property
    def shown_lines(self) -> list[str]:
        return self.lines

    def line_text(self, number: int) -> str:
        """A line as reports quote it; empty beyond the end."""
        return self.shown_lines[number - 1].strip() if number <= len(self.shown_lines) else ""

    def cell_at(self, line: int) -> Cell | None:
        """The cell of a notebook that holds a line of the text."""
        return None

    def divided(self, text: str) -> tuple[tuple[int | None, str], ...]:
        """What reports take for one text each, in `text` or an edited form of it: the whole, or each cell with its number."""
        return ((None, text),)

    @property
    def documents(self) -> tuple[tuple[str, bytes], ...]:
        """What a diff compares: (what is added to the file's name, content)."""
        return (("", self.raw),)

    @classmethod
    def from_bytes(cls, path: Path, name: str, raw: bytes) -> SourceFile:
        """Encoding by BOM and PEP 263 cookie. Raises `Undecodable` with one clear reason."""
        has_bom = raw.startswith(BOM)
        body = raw[len(BOM):] if has_bom else raw
        try:
            encoding = "utf-8" if has_bom else declared_encoding(body)
            body.decode(encoding)
        except (SyntaxError, LookupError) as error:
            raise Undecodable(f"unknown encoding: {error}") from None
        except UnicodeDecodeError as error:
            raise Undecodable(f"not {error.encoding} text at byte {error.start}") from None
        return cls(path, name, raw, encoding, has_bom)

    @classmethod
    def from_any_bytes(cls, path: Path, name: str, raw: bytes) -> SourceFile:
        """A file that is not Python: what does not decode is read as latin-1, which gives every byte back. Raises `Undecodable` for what is no text."""
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Undecodable("UTF-16 text: save it as UTF-8 to have it looked at")
        if b"\0" in raw:
            raise Undecodable("not text")
        try:
            return cls.from_bytes(path, name, raw)
        except Undecodable:
            return cls(path, name, raw, "latin-1")

    def with_text(self, text: str) -> SourceFile:
        """The same file with other text, encoded as the original was."""
        raw = (BOM if self.has_bom else b"") + text.encode(self.encoding)
        return SourceFile(self.path, self.name, raw, self.encoding, self.has_bom)

    @cached_property
    def _utf8(self) -> bytes:
        return self.text.encode("utf-8")

    @cached_property
    def lines(self) -> list[str]:
        return lines_of(self.text)

    @cached_property
    def _line_starts(self) -> list[int]:
        """UTF-8 byte offset of each line."""
        sizes = map(len, self.lines) if len(self._utf8) == len(self.text) else (len(line.encode("utf-8")) for line in self.lines)
        return list(accumulate(sizes, initial=0))

    def release(self) -> None:
        """Forget lines and offsets, which can be made again."""
        for name in ("_utf8", "lines", "_line_starts"):
            self.__dict__.pop(name, None)

    def byte_offset(self, line: int, byte_column: int) -> int:
        """Offset of a position as `ast` gives it: line from 1, column in UTF-8 bytes from 0."""
        return self._line_starts[line - 1] + byte_column

    def slice(self, start: int, end: int) -> str:
        """Text between two UTF-8 byte offsets."""
        return self._utf8[start:end].decode("utf-8")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, the column in characters, of a UTF-8 byte offset."""
        line = bisect_right(self._line_starts, offset)
        line = min(line, len(self._line_starts))
        start = self._line_starts[line - 1]
        return line, len(self._utf8[start:offset].decode("utf-8", "replace")) + 1


def read(path: Path, name: str, raw: bytes) -> SourceFile:
    """A Python file or notebook. Raises `Undecodable`, and of a notebook `OtherLanguage` too."""
    if path.suffix != NOTEBOOK:
        return SourceFile.from_bytes(path, name, raw)
    from xlaport.notebook import Notebook  # here, as few runs meet one and it takes 5 ms

    made = Notebook(path, name, raw, has_bom=raw.startswith(BOM))
    _ = made.joined  # raises for what is none
    return made


def python_in(path: Path, raw: bytes) -> bytes:
    """The Python in a file, for a look at its imports; empty for a notebook that cannot be read."""
    if path.suffix != NOTEBOOK:
        return raw
    from xlaport import notebook

    return notebook.code(raw)


@lru_cache(maxsize=256)
def decoded(body: bytes, encoding: str) -> str:
    """The text of the files last asked for: questions about one file read those around it again and again."""
    return body.decode(encoding)


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as Python's parser counts them: `str.splitlines` also ends one at a form feed or U+2028."""
    return list(io.StringIO(text, newline=""))


def declared_encoding(body: bytes) -> str:
    """The PEP 263 cookie's encoding, UTF-8 without one."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(body).readline)
    return "utf-8" if encoding == "utf-8-sig" else encoding
