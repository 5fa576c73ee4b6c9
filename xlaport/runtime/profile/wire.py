"""The wire format of protocol buffers, read without their descriptions: enough for what XLA writes."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value = int | bytes


class Malformed(ValueError):
    """Bytes that are no message."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of each field in order: an int for numbers, bytes for all else. Raises Malformed."""
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise Malformed(f"wire type {kind}")
        if at + size > end:
            raise Malformed("cut short")
        yield number, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and where it ends."""
    result = shift = 0
    while at < len(message):
        byte = message[at]
        result |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return result, at
        shift += 7
    raise Malformed("cut short")


def signed(value: int) -> int:
    """The int64 a varint stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def numbers(value: Value) -> list[int]:
    """A repeated field of integers: one of them, or all of them packed."""
    if isinstance(value, int):
        return [signed(value)]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(signed(number))
    return found
