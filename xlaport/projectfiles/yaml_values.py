"""Where each scalar of a YAML file stands, found by lines and indentation.

Enough YAML for settings: block and flow collections, quoted and plain scalars, comments, block scalars, anchors and tags,
several documents. What it does not understand it refuses, so that nothing is edited on a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlaport.projectfiles.malformed import Malformed

QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'", re.DOTALL)
KEY = re.compile(r"(?P<key>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\n]|'')*'|[^\s\"'\[\]{},#&*!|>%@`][^\n]*?)[ ]*:(?=[ \t\r\n]|\Z)")
BLOCK_SCALAR = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
PROPERTY = re.compile(r"(?:&[^\s,\[\]{}]+|!\S*)(?:[ \t]+|(?=\r?\n|\Z))")
PLAIN_END = re.compile(r"[ \t]+#|\r?\n|\Z")
FLOW_PLAIN = re.compile(r"(?:[^\s,\[\]{}:#]|:(?![\s,\[\]{}])|(?<=\S)#|[ \t]+(?![\s,\[\]{}:#]))+")
MARKER = re.compile(r"(?:---|\.\.\.)(?=\s|\Z)")


@dataclass(frozen=True)
class Scalar:
    """`path` has the keys above and the scalar's own; elements of a sequence share its path. `start:end` is inside quotes."""

    path: tuple[str, ...]
    text: str
    start: int
    end: int
    quote: str
    in_sequence: bool
    in_flow: bool


@dataclass
class Level:
    """An open collection: its column, whether it is a sequence, and the key being filled."""

    column: int
    is_sequence: bool
    key: str | None = None
    is_filled: bool = False
    """The key has its value: nothing can stand below it."""

    @property
    def place(self) -> tuple[int, bool]:
        """A sequence may start in the column of the key that holds it."""
        return self.column, self.is_sequence


def scalars(text: str) -> list[Scalar]:
    """All scalars in order. Raises `Malformed`."""
    return Scanner(text).scan()


class Scanner:
    def __init__(self, text: str):
        self.text = text
        self.found: list[Scalar] = []
        self.levels: list[Level] = []
        self.open_plain: tuple[int, bool] | None = None
        """Column of the key or dash whose plain scalar the next, deeper line would continue."""

    def scan(self) -> list[Scalar]:
        position = 0
        while position < len(self.text):
            position = self.line(position)
        return self.found

    def line(self, start: int) -> int:
        """Reads the line at `start`, and those its value goes on over; returns where the next starts."""
        text = self.text
        end = self.end_of_line(start)
        content = text[start:end].strip()
        if not content or content.startswith("#"):
            return end + 1
        if MARKER.match(text, start) or content.startswith("%") and not self.levels:
            self.levels.clear()
            self.open_plain = None
            rest = text[start + 3 : end].strip()
            if rest and not rest.startswith("#") and not content.startswith("%"):
                raise Malformed("content behind a document marker")
            return end + 1
        position = start + len(text[start:end]) - len(text[start:end].lstrip(" "))
        if text[position] == "\t":
            raise Malformed("a tab for indentation")
        if self.continues_plain(start, position):
            return end + 1
        self.open_plain = None
        return self.node(start, position)

    def continues_plain(self, start: int, position: int) -> bool:
        """Does the line continue the plain scalar above? Then that scalar is not what it looked like."""
        if self.open_plain is None or position - start <= self.open_plain[0] or self.is_dash(position) and not self.open_plain[1]:
            return False
        if KEY.match(self.text, position, self.end_of_line(position)):
            raise Malformed("a key inside a scalar")
        if self.open_plain[1]:
            self.found.pop()
            self.open_plain = (self.open_plain[0], False)
        return True

    def node(self, start: int, position: int) -> int:
        """What stands at a column: a dash, a key, or a scalar of its own."""
        text = self.text
        while self.is_dash(position):
            self.enter(Level(position - start, True))
            position += 1
            position += len(text[position : self.end_of_line(position)]) - len(text[position : self.end_of_line(position)].lstrip(" "))
            if self.is_blank(position):
                return self.end_of_line(position) + 1
        position = self.after_properties(position)
        if self.is_blank(position):
            return self.end_of_line(position) + 1
        key = KEY.match(text, position, self.end_of_line(position))
        if key is None and text.startswith("? ", position):
            raise Malformed("a complex key")
        if key is None:
            if not self.levels:
                return self.value(position, self.columns(start, position))
            if not self.levels[-1].is_sequence and position - start <= self.levels[-1].column:
                raise Malformed("a line that is neither key nor element")
            return self.value(position, self.columns(start, position))
        self.enter(Level(position - start, False))
        self.levels[-1].key, self.levels[-1].is_filled = unquoted(key["key"]), False
        position = key.end()
        position += len(text[position : self.end_of_line(position)]) - len(text[position : self.end_of_line(position)].lstrip(" \t"))
        position = self.after_properties(position)
        if self.is_blank(position):
            return self.end_of_line(position) + 1
        self.levels[-1].is_filled = True
        return self.value(position, self.levels[-1].column)

    def columns(self, start: int, position: int) -> int:
        return self.levels[-1].column if self.levels else position - start - 1

    def enter(self, level: Level) -> None:
        """Closes the collections that end here; the line continues one that is open, or opens one below a key."""
        closed = False
        while self.levels and self.levels[-1].place > level.place:
            self.levels.pop()
            closed = True
        if self.levels and self.levels[-1].place == level.place:
            return
        if closed:
            raise Malformed("indentation that fits no collection above")
        if self.levels and self.levels[-1].is_filled:
            raise Malformed("indentation without a key above")
        self.levels.append(level)

    def value(self, position: int, column: int) -> int:
        """Reads the value at `position`, of a key or dash in `column`; returns where the next line starts."""
        text = self.text
        character = text[position]
        if character in "|>":
            if not BLOCK_SCALAR.match(text, position):
                raise Malformed("a block scalar with text behind its header")
            return self.after_block(self.end_of_line(position) + 1, column)
        if character == "*":
            return self.end_of_line(position) + 1
        if character in "{[":
            return self.rest_is_blank(self.flow(position, self.path()))
        if character in "\"'":
            found = QUOTED.match(text, position)
            if found is None:
                raise Malformed("a quote that is not closed")
            self.add(found.start() + 1, found.end() - 1, character, False, self.path())
            return self.rest_is_blank(found.end())
        if character in "%@`" or self.is_dash(position):
            raise Malformed(f"a value that starts with {character}")
        end = PLAIN_END.search(text, position).start()
        while text[end - 1] in " \t":
            end -= 1
        if ": " in text[position:end] or text[position:end].endswith(":"):
            raise Malformed("a key inside a scalar")
        self.add(position, end, "", False, self.path())
        self.open_plain = (column, True)
        return self.end_of_line(end) + 1

    def path(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels if level.key is not None and not level.is_sequence)

    def add(self, start: int, end: int, quote: str, in_flow: bool, path: tuple[str, ...], in_sequence: bool | None = None) -> None:
        if in_sequence is None:
            in_sequence = bool(self.levels) and self.levels[-1].is_sequence
        self.found.append(Scalar(path, self.text[start:end], start, end, quote, in_sequence, in_flow))

    # -- flow collections

    def flow(self, position: int, path: tuple[str, ...]) -> int:
        """Reads `{...}` or `[...]`; returns what is behind it."""
        is_mapping = self.text[position] == "{"
        closing = "}" if is_mapping else "]"
        position = self.flow_blank(position + 1)
        while self.character(position) != closing:
            position = self.flow_entry(position, path, is_mapping)
            position = self.flow_blank(position)
            if self.character(position) == ",":
                position = self.flow_blank(position + 1)
            elif self.character(position) != closing:
                raise Malformed("a flow collection without a comma")
        return position + 1

    def flow_entry(self, position: int, path: tuple[str, ...], is_mapping: bool) -> int:
        start, end, quote, after = self.flow_scalar(position, path)
        if after is not None:
            return after
        behind = self.flow_blank(end + len(quote))
        if self.character(behind) != ":":
            if not is_mapping:
                self.add(start, end, quote, True, path, in_sequence=True)
            return end + len(quote)
        key = (*path, self.text[start:end])
        position = self.flow_blank(behind + 1)
        if self.character(position) in ",}]":
            return position
        start, end, quote, after = self.flow_scalar(position, key)
        if after is not None:
            return after
        self.add(start, end, quote, True, key, in_sequence=False)
        return end + len(quote)

    def flow_scalar(self, position: int, path: tuple[str, ...]) -> tuple[int, int, str, int | None]:
        """A scalar's place and quote; or, for a nested collection or alias, what is behind it."""
        position = self.after_properties(position)
        character = self.character(position)
        if character in "{[":
            return 0, 0, "", self.flow(position, path)
        if character in "\"'":
            found = QUOTED.match(self.text, position)
            if found is None:
                raise Malformed("a quote that is not closed")
            return found.start() + 1, found.end() - 1, character, None
        found = FLOW_PLAIN.match(self.text, position)
        if found is None:
            raise Malformed(f"{character!r} in a flow collection")
        if character == "*":
            return 0, 0, "", found.end()
        return found.start(), found.end(), "", None

    def flow_blank(self, position: int) -> int:
        """Passes blanks, line ends and comments."""
        while True:
            character = self.character(position)
            if character in " \t\r\n":
                position += 1
            elif character == "#":
                position = self.end_of_line(position)
            else:
                return position

    def character(self, position: int) -> str:
        if position >= len(self.text):
            raise Malformed("a flow collection that is not closed")
        return self.text[position]

    # -- places

    def end_of_line(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end

    def is_dash(self, position: int) -> bool:
        return self.text.startswith("-", position) and self.text[position + 1 : position + 2] in {"", " ", "\n", "\r"}

    def is_blank(self, position: int) -> bool:
        """Nothing but a comment up to the end of the line?"""
        rest = self.text[position : self.end_of_line(position)].strip()
        return not rest or rest.startswith("#")

    def after_properties(self, position: int) -> int:
        while found := PROPERTY.match(self.text, position):
            position = found.end()
        return position

    def after_block(self, position: int, column: int) -> int:
        """Behind the lines deeper than `column`, blank ones among them."""
        while position < len(self.text):
            line = self.text[position : self.end_of_line(position)]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= column:
                break
            position += len(line) + 1
        return position

    def rest_is_blank(self, position: int) -> int:
        if not self.is_blank(position):
            raise Malformed("text behind a value")
        return self.end_of_line(position) + 1


def unquoted(key: str) -> str:
    return key[1:-1] if key[:1] in {'"', "'"} else key
