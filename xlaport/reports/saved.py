"""Saved reports as the dataclasses they were made of. Of what is no such report the first fault is named, with its place.

The annotations say what a field may be. Libraries that do this exist; the core needs no more than libcst and rich.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from xlaport.errors import UserError, cause_of

T = TypeVar("T")
Reader = Callable[[Any, str], Any]
"""(what JSON holds, where) -> the value. Raises `Foreign`."""

VERSION = 1
"""Of every saved report: fields are added, never changed or taken away."""


class Foreign(Exception):
    """What was read is not what was saved: the field, and what is wrong with it."""


def document(path: Path) -> dict[str, Any]:
    """A saved report of any verb. Raises `UserError` for a file that is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        found = json.loads(text)
    except OSError as error:
        raise UserError(f"{path}: {cause_of(error)}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise UserError(f"{path}: not a saved report: nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("report"), str):
        raise UserError(f"{path}: not a saved report of xlaport")
    if found.get("version") != VERSION:
        raise UserError(f"{path}: version {found.get('version')!r}; this xlaport reads version {VERSION}")
    return found


def part(found: Any, name: str, where: str = "") -> Any:
    """A member of a JSON object. Raises `Foreign` where there is none."""
    if not isinstance(found, dict):
        raise Foreign(f"{where or 'the document'} is no object")
    if name not in found:
        raise Foreign(f"{at(where, name)} is missing")
    return found[name]


def structured(kind: type[T], found: Any, where: str = "", readers: dict[Any, Reader] | None = None) -> T:
    """A value of `kind`: a dataclass, enum, plain value, or a tuple, dict or union of such. Members that `kind` has not are passed over.

    `readers` read what is saved in another form than its dataclass. Raises `Foreign`.
    """
    readers = readers or {}
    if kind in readers:
        return readers[kind](found, where)
    origin = get_origin(kind)
    if origin in (types.UnionType, Union):
        return one_of(get_args(kind), found, where, readers)
    if origin is tuple:
        return items(get_args(kind), found, where, readers)
    if origin is dict:
        expect(isinstance(found, dict), where, "no object")
        (_, member) = get_args(kind)
        return {name: structured(member, value, at(where, name), readers) for name, value in found.items()}
    if is_dataclass(kind):
        return kind(**{name: structured(hint, found[name], at(where, name), readers) for name, hint in hints(kind, found, where)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        expect(found in [member.value for member in kind], where, f"{found!r}, which is none of {', '.join(str(member.value) for member in kind)}")
        return kind(found)
    return plain(kind, found, where)


def plain(kind: type, found: Any, where: str) -> Any:
    """JSON has no NaN: a float that is null was not finite."""
    if kind is float:
        expect(found is None or isinstance(found, (int, float)) and not isinstance(found, bool), where, "no number")
        try:
            return float("nan") if found is None else float(found)
        except OverflowError:
            raise Foreign(f"{where} is too large") from None
    expect(isinstance(found, kind) and (kind is bool or not isinstance(found, bool)), where, f"no {WORDS[kind]}")
    return found


WORDS = {str: "text", int: "whole number", bool: "true or false", type(None): "null"}


def one_of(kinds: tuple, found: Any, where: str, readers: dict[Any, Reader]) -> Any:
    if found is None and type(None) in kinds:
        return None
    (kind,) = (kind for kind in kinds if kind is not type(None))
    return structured(kind, found, where, readers)


def items(kinds: tuple, found: Any, where: str, readers: dict[Any, Reader]) -> tuple:
    expect(isinstance(found, list), where, "no list")
    if kinds[-1] is Ellipsis:
        return tuple(structured(kinds[0], value, f"{where}[{i}]", readers) for i, value in enumerate(found))
    expect(len(found) == len(kinds), where, f"no list of {len(kinds)}")
    return tuple(structured(kind, value, f"{where}[{i}]", readers) for i, (kind, value) in enumerate(zip(kinds, found)))


def hints(kind: type, found: Any, where: str) -> list[tuple[str, Any]]:
    """The fields of a dataclass that are there; those without a default must be."""
    expect(isinstance(found, dict), where, "no object")
    listed = []
    for item, hint in typed(kind):
        if item.name in found:
            listed.append((item.name, hint))
        elif item.default is MISSING and item.default_factory is MISSING:
            raise Foreign(f"{at(where, item.name)} is missing")
    return listed


@lru_cache(maxsize=None)
def typed(kind: type) -> tuple:
    known = get_type_hints(kind)
    return tuple((item, known[item.name]) for item in fields(kind))


def expect(right: bool, where: str, said: str) -> None:
    if not right:
        raise Foreign(f"{where or 'the document'} is {said}")


def at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
