"""Where each scalar of a JSON document stands. `json` reads values and forgets places."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from xlaport.projectfiles.malformed import Malformed

BLANK = re.compile(r"[ \t\r\n]*")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SCALAR = re.compile(r"[^\s,\]}]+")


@dataclass(frozen=True)
class Value:
    """A scalar; `start:end` is what stands between the quotes. Elements of an array share its path."""

    path: tuple[str, ...]
    text: str
    start: int
    end: int
    quote: str
    in_array: bool


def values(text: str) -> list[Value]:
    """All scalars in order. Raises `Malformed` where `json` does."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None
    found: list[Value] = []
    read(text, blank(text, 0), (), False, found)
    return found


def blank(text: str, position: int) -> int:
    return BLANK.match(text, position).end()


def read(text: str, position: int, path: tuple[str, ...], in_array: bool, found: list[Value]) -> int:
    """Reads the value at `position` of a valid document; returns what is behind it."""
    character = text[position]
    if character in "{[":
        return collection(text, position, path, found)
    if character == '"':
        end = STRING.match(text, position).end()
        found.append(Value(path, text[position + 1 : end - 1], position + 1, end - 1, '"', in_array))
        return end
    end = SCALAR.match(text, position).end()
    found.append(Value(path, text[position:end], position, end, "", in_array))
    return end


def collection(text: str, position: int, path: tuple[str, ...], found: list[Value]) -> int:
    is_object = text[position] == "{"
    position = blank(text, position + 1)
    while text[position] not in "}]":
        inner = path
        if is_object:
            key = STRING.match(text, position)
            inner = (*path, key[0][1:-1])
            position = blank(text, blank(text, key.end()) + 1)
        position = blank(text, read(text, position, inner, not is_object, found))
        if text[position] == ",":
            position = blank(text, position + 1)
    return position + 1
