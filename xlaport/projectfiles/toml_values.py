"""Where each value of a TOML document stands. tomllib reads values and forgets places."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from xlaport.projectfiles.malformed import Malformed

BARE = re.compile(r"[A-Za-z0-9_-]+")
SCALAR = re.compile(r"[^\s,\]}#]+(?:[ ]\d\d:[^\s,\]}#]+)?")


@dataclass(frozen=True)
class Value:
    """A string or scalar. `start:end` is what stands between the quotes, or the bare scalar.

    `path` has the keys from the root; elements of an array share the path of the array.
    `statement` is where the `key = value` that holds it starts.
    """

    path: tuple[str, ...]
    text: str
    start: int
    end: int
    quote: str
    in_array: bool
    statement: int

    @property
    def outer(self) -> tuple[int, int]:
        """With the quotes."""
        return self.start - len(self.quote), self.end + len(self.quote)


def values(text: str) -> list[Value]:
    """All strings and scalars in order. Raises `Malformed` where tomllib does."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from None
    return Scanner(text).document()


class Scanner:
    """Walks a document that is known to be valid."""

    def __init__(self, text: str):
        self.text = text
        self.position = 0
        self.statement = 0
        self.found: list[Value] = []

    def document(self) -> list[Value]:
        table: tuple[str, ...] = ()
        while self.skip_blank(newlines=True):
            if self.at("["):
                double = self.text.startswith("[[", self.position)
                self.position += 2 if double else 1
                table = self.key()
                self.position += 2 if double else 1
            else:
                self.statement = self.position
                key = self.key()
                self.position += 1  # =
                self.value((*table, *key), in_array=False)
        return self.found

    def at(self, character: str) -> bool:
        return self.text.startswith(character, self.position)

    def skip_blank(self, newlines: bool) -> bool:
        """Passes blanks, and comments; False at the end of the text."""
        blanks = " \t\r\n" if newlines else " \t"
        while self.position < len(self.text):
            if self.text[self.position] in blanks:
                self.position += 1
            elif newlines and self.at("#"):
                self.position = end_of_line(self.text, self.position)
            else:
                return True
        return False

    def key(self) -> tuple[str, ...]:
        parts = []
        while True:
            self.skip_blank(newlines=False)
            if self.at('"') or self.at("'"):
                start, end, quote = self.string()
                parts.append(self.text[start:end])
            else:
                found = BARE.match(self.text, self.position)
                parts.append(found[0])
                self.position = found.end()
            self.skip_blank(newlines=False)
            if not self.at("."):
                return tuple(parts)
            self.position += 1

    def value(self, path: tuple[str, ...], in_array: bool) -> None:
        self.skip_blank(newlines=in_array)
        if self.at("["):
            self.array(path)
        elif self.at("{"):
            self.inline_table(path)
        elif self.at('"') or self.at("'"):
            start, end, quote = self.string()
            self.add(path, start, end, quote, in_array)
        else:
            found = SCALAR.match(self.text, self.position)
            self.position = found.end()
            self.add(path, found.start(), found.end(), "", in_array)

    def add(self, path: tuple[str, ...], start: int, end: int, quote: str, in_array: bool) -> None:
        self.found.append(Value(path, self.text[start:end], start, end, quote, in_array, self.statement))

    def array(self, path: tuple[str, ...]) -> None:
        self.position += 1
        while self.skip_blank(newlines=True) and not self.at("]"):
            self.value(path, in_array=True)
            self.skip_blank(newlines=True)
            if self.at(","):
                self.position += 1
        self.position += 1

    def inline_table(self, path: tuple[str, ...]) -> None:
        self.position += 1
        while self.skip_blank(newlines=True) and not self.at("}"):
            key = self.key()
            self.position += 1  # =
            self.value((*path, *key), in_array=False)
            self.skip_blank(newlines=True)
            if self.at(","):
                self.position += 1
        self.position += 1

    def string(self) -> tuple[int, int, str]:
        quote = self.text[self.position]
        if self.at(quote * 3):
            quote *= 3
        start = position = self.position + len(quote)
        while not self.text.startswith(quote, position):
            position += 2 if quote[0] == '"' and self.text[position] == "\\" else 1
        if len(quote) == 3:  # up to two quotes may stand before the closing three
            while self.text.startswith(quote[0], position + 3):
                position += 1
        self.position = position + len(quote)
        return start, position, quote


def end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
