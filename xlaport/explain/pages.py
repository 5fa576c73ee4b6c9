"""The pages of `rules/errors/`: what a message is recognised by, and what is said about it.

A page has the front matter of a rule's page, with the keys below, then the sections Cause, Check, Remedy and Reference. Its
examples are fenced blocks: `log recorded` holds what torch 2.9, torch_xla 2.9 or the TPU compiler printed for us, `log cited=URL` what
somebody reported or the source has, and `log ok` what looks alike and is something else. They are the tests of the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path

from xlaport.errors import UserError
from xlaport.ruleset.load import FENCE, by_code, fences, rules_folder, split
from xlaport.ruleset.schema import BadRule, check_keys

KIND = "error"
SECTIONS = ("Cause", "Check", "Remedy", "Reference")
AREAS = ("memory", "device", "versions", "shapes", "ops", "compilation", "precision", "distributed", "data", "checkpoints", "cloud")
REQUIRED = {"code", "kind", "name", "summary", "area", "role", "patterns", "since"}
OPTIONAL = {"frames", "over", "rules"}
CODE = re.compile(r"XPE\d{3}")
HEADING = re.compile(r"^## (\w+)[ \t]*\n", re.MULTILINE)


class Role(str, Enum):
    """What a message is in the story of a failure. Causes are told first, then symptoms, then notes."""

    CAUSE = "cause"

    SYMPTOM = "symptom"
    """It follows from something else, which often stands elsewhere in the log, or in that of another worker."""

    NOTE = "note"
    """A warning: the program goes on, slower or otherwise than meant."""


@dataclass(frozen=True)
class Example:
    """A block of a page. `source` is an address, "recorded" or "ok"; `line` is that of its first line in the page."""

    text: str
    source: str
    line: int


@dataclass(frozen=True)
class Pattern:
    """`literal` is a text that is in every match, empty where none is known: looked for first, since that is a hundred times faster."""

    regex: re.Pattern[str]
    literal: str


@dataclass(frozen=True, eq=False)
class Entry:
    """One kind of message. `frames`: a file that the traceback has to pass through. `over`: entries that are silent where this one speaks."""

    code: str
    name: str
    summary: str
    area: str
    role: Role
    patterns: tuple[Pattern, ...]
    since: str
    path: Path
    sections: dict[str, str] = field(repr=False)
    examples: tuple[Example, ...] = field(repr=False)
    frames: re.Pattern[str] | None = None
    over: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def messages(self) -> tuple[Example, ...]:
        """The examples that it is recognised by, without those that only look alike."""
        return tuple(example for example in self.examples if example.source != "ok")


@lru_cache(maxsize=1)
def builtin() -> tuple[Entry, ...]:
    """The entries xlaport ships, sorted by code. Raises `BadRule` for a page that breaks the schema, `UserError` without any."""
    folder = rules_folder() / "errors"
    entries = by_code(map(load, folder.glob("*.md")))
    if not entries:
        raise UserError(f"{folder}: holds no pages; install xlaport again")
    codes = {entry.code for entry in entries}
    unknown = next(((entry, code) for entry in entries for code in entry.over if code not in codes), None)
    if unknown:
        raise BadRule(f"{unknown[0].path}: there is no {unknown[1]} to speak over")
    return entries


def named(word: str) -> Entry:
    """By code or name. Raises `UserError`."""
    found = next((entry for entry in builtin() if word.upper() == entry.code or word == entry.name), None)
    if found is None:
        raise UserError(f"no entry {word!r}; xlaport explain --list has them")
    return found


def load(path: Path) -> Entry:
    """An entry from its page. Raises `BadRule`."""
    front, page = split(path)
    check_keys(front, REQUIRED, OPTIONAL, path)
    if front["kind"] != KIND or not CODE.fullmatch(front["code"]) or front["area"] not in AREAS:
        raise BadRule(f"{path}: kind must be {KIND!r}, code XPE and three digits, area one of {', '.join(AREAS)}")
    try:
        return Entry(
            code=front["code"],
            name=front["name"],
            summary=front["summary"],
            area=front["area"],
            role=Role(front["role"]),
            patterns=tuple(Pattern(re.compile(text), literal_of(text)) for text in front["patterns"]),
            since=front["since"],
            path=path,
            sections=sections_of(page, path),
            examples=tuple(examples_of(path)),
            frames=re.compile(front["frames"]) if "frames" in front else None,
            over=tuple(front.get("over", ())),
            rules=tuple(front.get("rules", ())),
        )
    except (re.error, ValueError) as error:
        raise BadRule(f"{path}: {error}") from None


def sections_of(page: str, path: Path) -> dict[str, str]:
    """Heading -> text without the blocks, in the order of `SECTIONS`."""
    pieces = HEADING.split(FENCE.sub("", page))
    found = {title: text.strip() for title, text in zip(pieces[1::2], pieces[2::2])}
    if pieces[0].strip() or tuple(found) != SECTIONS or not all(found.values()):
        raise BadRule(f"{path}: the sections are {', '.join(SECTIONS)}, in this order")
    return found


def examples_of(path: Path) -> list[Example]:
    """The blocks of a page, with the line where each starts in the file."""
    found = []
    for fence in fences(path):
        language, _, info = fence.info.partition(" ")
        source = info.removeprefix("cited=")
        if language != "log" or source == info and info not in {"recorded", "ok"}:
            raise BadRule(f"{path}: a block is `log recorded`, `log cited=ADDRESS` or `log ok`, not {fence.info!r}")
        found.append(Example(fence.text, source, fence.line))
    return found


PIECE = re.compile(
    r"(?P<group>\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)(?:[*+?]|\{[^}]*\})*)"  # two levels deep
    r"|(?P<set>\[\^?\]?(?:[^\]\\]|\\.)*\](?:[*+?]|\{[^}]*\})*)"
    r"|(?P<kind>\\[a-zA-Z](?:[*+?]|\{[^}]*\})*|[.^$](?:[*+?]|\{[^}]*\})*)"
    r"|(?P<optional>(?:\\.|[^\\])(?:[*?]|\{0?,?\d*\})\??)"
    r"|\\(?P<escaped>.)|(?P<plain>.)"
)


def literal_of(pattern: str) -> str:
    """The longest text that every match of a regular expression contains; empty if there may be none.

    Groups and sets count for nothing, so the answer may be shorter than the truth, and is never wrong.
    """
    if "(?i)" in pattern:
        return ""
    runs = [""]
    for piece in PIECE.finditer(pattern):
        if piece["plain"] == "|":
            return ""
        character = piece["escaped"] or piece["plain"]
        if character is None or character in "+":
            runs.append("")
        else:
            runs[-1] += character
    return max(runs, key=len)
