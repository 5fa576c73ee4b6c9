"""Looks at texts before trees: most files do not even have the words a rule is about."""

from __future__ import annotations

import re
from functools import lru_cache

WORD = re.compile(r"[A-Za-z_]\w*")
TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]])+\]|\(\?[:=!<]+|.", re.DOTALL)
"""An escape, a character class, the start of a special group, or one character of a pattern."""

SHORTEST = 2
"""Letters a word needs to be worth looking for."""


def vocabulary(text: str) -> str:
    """The distinct words of a text, one a line: a fifth of its length."""
    return "\n".join(set(WORD.findall(text)))


class Said:
    """Which patterns one text has. Plain words are looked for first, among its distinct words, and once for all patterns."""

    def __init__(self, text: str, words: str):
        self.text = text
        self._vocabulary = words
        self._known: dict[str, bool] = {}

    def matches(self, pattern: re.Pattern[str]) -> bool:
        words = words_of(pattern)
        if words and not any(self._has(word) for word in words):
            return False
        return pattern.search(self.text) is not None

    def _has(self, word: str) -> bool:
        if word not in self._known:
            self._known[word] = word in (self._vocabulary if word.isidentifier() else self.text)
        return self._known[word]


@lru_cache(maxsize=None)
def words_of(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Words of which every text that matches has one; none when that cannot be told: `device` of `device\\s*=`."""
    return () if pattern.flags & re.IGNORECASE else tuple(alternatives(TOKEN.findall(pattern.pattern)))


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
        literal = token[1] if re.fullmatch(r"\\[^\w]", token) else token if re.fullmatch(r"[\w \-=\"'\n]", token) else ""
        if token.startswith("("):
            end = closing(branch, at)
            optional = branch[end + 1:end + 2] in (["?"], ["*"]) or token not in {"(", "(?:"}
            groups += [] if optional else [alternatives(branch[at + 1:end])]
            at = end
        if literal and after not in {"?", "*", "{"}:
            run += literal
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
