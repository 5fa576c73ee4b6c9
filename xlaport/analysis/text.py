"""Looks at texts before trees: most files do not even have the words a rule is about."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache

TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]])+\]|\(\?[:=!<]+|.", re.DOTALL)
"""An escape, a character class, the start of a special group, or one character of a pattern."""

class LazyPattern:
    """A regular expression that is compiled when a text is searched: of most rules' the words of a file tell. Used as a `re.Pattern` is."""

    def __init__(self, pattern: str):
        self.pattern = pattern

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @property
    def flags(self) -> int:
        return self._compiled.flags if "(?" in self.pattern else re.UNICODE.value

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)


Pattern = re.Pattern[str] | LazyPattern

SHORTEST = 2
"""Letters a word needs to be worth looking for."""


NOT_IN_WORDS = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == ord("_") else ord(" ") for byte in range(256))


def vocabulary(raw: bytes) -> set[str]:
    """The distinct words of a file, a fifth of its length."""
    return set(raw.translate(NOT_IN_WORDS).decode("utf-8", "replace").split())


EXACT = re.compile(r"\\b(\w+)\\b")
PLAIN = re.compile(r"\w+")


def words_of(pattern: Pattern) -> list[list[str]]:
    """Parts of words, one list of which every text that matches has; none when that cannot be told: `[["device"]]` of `device\\s*=`."""
    if pattern.flags & re.IGNORECASE:
        return []
    found = [PLAIN.findall(plain) for plain in alternatives(TOKEN.findall(pattern.pattern))]
    return found if all(found) else []


def exact_words(pattern: Pattern) -> tuple[list[str], list[str]] | None:
    """Whole words and parts of words, one of which is all that a text needs to match: `\\bload\\b|cuda`; None for other patterns."""
    branches = pattern.pattern.split("|")
    if pattern.flags & re.IGNORECASE or not all(PLAIN.fullmatch(branch) or EXACT.fullmatch(branch) for branch in branches):
        return None
    whole = [match[1] for branch in branches if (match := EXACT.fullmatch(branch))]
    return whole, [branch for branch in branches if PLAIN.fullmatch(branch)]


def is_any_case(pattern: Pattern) -> bool:
    """Parts of words and nothing else, in any case: each word tells whether it matches."""
    return bool(pattern.flags & re.IGNORECASE) and re.fullmatch(r"[\w|]+", pattern.pattern.removeprefix("(?i)")) is not None


@lru_cache(maxsize=None)
def finder(pattern: Pattern) -> Callable[[str], bool]:
    """Does a text match? Alternatives are tried one by one: most texts lack their plain parts, and that is told in a tenth of the time."""
    if pattern.flags & (re.IGNORECASE | re.VERBOSE):
        return lambda text: pattern.search(text) is not None
    tests = [test_of(branch, pattern.flags) for branch in branches(TOKEN.findall(pattern.pattern))]
    return lambda text: any(test(text) for test in tests)


def test_of(branch: list[str], flags: int) -> Callable[[str], bool]:
    words = required(branch)
    if is_plain(branch):
        return lambda text: words[0] in text
    rest = re.compile("".join(branch), flags)
    return lambda text: (not words or any(word in text for word in words)) and rest.search(text) is not None


def is_plain(branch: list[str]) -> bool:
    """Is a branch nothing but the characters it matches?"""
    return len(branch) >= SHORTEST and all(literal(token) for token in branch)


def literal(token: str) -> str:
    """The one character that a token matches; empty for what may match others."""
    return token[1] if re.fullmatch(r"\\[^\w]", token) else token if re.fullmatch(r"[\w \-=\"'\n]", token) else ""


def alternatives(tokens: list[str]) -> list[str]:
    """One word for each alternative of a pattern; empty when one of them has none."""
    found: list[str] = []
    for branch in branches(tokens):
        words = required(branch)
        if not words:
            return []
        found += words
    return found


def branches(tokens: list[str]) -> list[list[str]]:
    parts, depth = [[]], 0
    for token in tokens:
        depth += token.startswith("(") - (token == ")")
        if token == "|" and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def required(branch: list[str]) -> list[str]:
    """The longest run of plain characters, else the words of a group that must be there."""
    runs, groups, run = [], [], ""
    at = 0
    while at < len(branch):
        token = branch[at]
        after = branch[at + 1] if at + 1 < len(branch) else ""
        character = literal(token)
        if token.startswith("("):
            end = closing(branch, at)
            is_special = token not in {"(", "(?:"} or branch[at + 1:at + 2] == ["?"]  # `(?P<name>...)`: its name is not in the text
            optional = is_special or branch[end + 1:end + 2] in (["?"], ["*"])
            groups += [] if optional else [alternatives(branch[at + 1:end])]
            at = end
        if character and after not in {"?", "*", "{"}:
            run += character
        else:
            runs, run = [*runs, run], ""
        at += 1
    longest = max([*runs, run], key=len)
    return [longest] if len(longest) >= SHORTEST else max((group for group in groups if group), key=len, default=[])


def closing(tokens: list[str], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += tokens[at].startswith("(") - (tokens[at] == ")")
        if not depth:
            return at
    return len(tokens) - 1
