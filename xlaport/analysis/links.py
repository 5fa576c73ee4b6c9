"""Which files of a project import which, and which of them mention what. Sets of files are bit masks.

A project of 2,000 files that all reach one another has 4 million pairs: as sets they would take 200 MB, as masks
they take half of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


class Numbered:
    """Files by number, in the order of their paths; bit `n` of a mask stands for file `n`."""

    def __init__(self, paths: Iterable[Path]):
        self.paths = sorted(paths)
        self.number = {path: number for number, path in enumerate(self.paths)}

    def mask(self, paths: Iterable[Path]) -> int:
        found = 0
        for path in paths:
            found |= 1 << self.number[path]
        return found

    def files(self, mask: int) -> list[Path]:
        """The files of a mask, in the order of their paths."""
        digits = bin(mask)[:1:-1]
        found, at = [], digits.find("1")
        while at >= 0:
            found.append(self.paths[at])
            at = digits.find("1", at + 1)
        return found


class Links:
    """Imports among files, from `targets`: file -> files its import statements name."""

    def __init__(self, files: Numbered, targets: Mapping[Path, Iterable[Path]]):
        self.files = files
        self._below = [files.mask(targets.get(path, ())) for path in files.paths]

    @cached_property
    def _above(self) -> list[int]:
        """`_below` the other way round."""
        table = [0] * len(self._below)
        for number, mask in enumerate(self._below):
            for target in self.files.files(mask):
                table[self.files.number[target]] |= 1 << number
        return table

    @cached_property
    def _all_below(self) -> list[int]:
        return closure(self._below)

    @cached_property
    def _all_above(self) -> list[int]:
        return closure(self._above)

    @cached_property
    def _together(self) -> list[int]:
        return closure([below | above for below, above in zip(self._below, self._above)])

    def named_by(self, path: Path) -> int:
        """Files that name one in their own import statements."""
        return self._above[self.files.number[path]]

    def neighbours(self, path: Path) -> int:
        """A file with those it names in its own import statements, and those that name it."""
        number = self.files.number[path]
        return 1 << number | self._below[number] | self._above[number]

    def imported_by(self, path: Path) -> int:
        """Files `path` imports, directly or through others."""
        return self._all_below[self.files.number[path]]

    def importers(self, path: Path) -> int:
        """Files that import `path`, directly or through others."""
        return self._all_above[self.files.number[path]]

    def program(self, path: Path) -> int:
        """A file with everything it imports and everything that imports it."""
        number = self.files.number[path]
        return 1 << number | self._all_below[number] | self._all_above[number]

    def linked(self, path: Path) -> int:
        """A file with all that are linked to it through imports in either direction."""
        number = self.files.number[path]
        return 1 << number | self._together[number]


def closure(edges: list[int]) -> list[int]:
    """Files reachable over edges in one or more steps.

    Passes in both orders until nothing grows: import chains follow folders, so four or five passes do.
    """
    reached = list(edges)
    numbers = [[at for at, digit in enumerate(bin(mask)[:1:-1]) if digit == "1"] for mask in edges]
    grown, forth = True, True
    while grown:
        grown = False
        for number in range(len(edges)) if forth else reversed(range(len(edges))):
            mask = reached[number]
            for target in numbers[number]:
                mask |= reached[target]
            if mask != reached[number]:
                reached[number], grown = mask, True
        forth = not forth
    return reached


@dataclass(eq=False)
class Mentions:
    """Which files pass one test of their texts: looked at when asked about, remembered as masks."""

    test: Callable[[Path], object]
    found: int = 0
    looked_at: int = 0

    def any(self, mask: int, files: Numbered) -> bool:
        """Does any file of the mask pass?"""
        if self.found & mask:
            return True
        for path in files.files(mask & ~self.looked_at):
            bit = 1 << files.number[path]
            self.looked_at |= bit
            if self.test(path):
                self.found |= bit
                return True
        return False

    def forget(self, bit: int) -> None:
        self.found &= ~bit
        self.looked_at &= ~bit


class Words:
    """Which files have a word, as masks."""

    def __init__(self, files: Numbered, vocabulary_of: Callable[[Path], Iterable[str]]):
        self._masks: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        masks = self._masks
        for number, path in enumerate(files.paths):
            bit = 1 << number
            for word in vocabulary_of(path):
                masks[word] = masks.get(word, 0) | bit

    def having(self, word: str) -> int:
        return self._masks.get(word, 0)

    def any(self, words: Iterable[str], parts: Iterable[str]) -> int:
        """Files with one of the words, or with a word that has one of the parts in it."""
        found = 0
        for word in words:
            found |= self.having(word)
        for part in parts:
            found |= self.having_part(part)
        return found

    def any_of_parts(self, alternatives: list[list[str]]) -> int:
        """Files that have all parts of one list; all files without a list."""
        found = 0 if alternatives else -1
        for parts in alternatives:
            having = -1
            for part in parts:
                having &= self.having_part(part)
            found |= having
        return found

    def matching(self, pattern: re.Pattern[str]) -> int:
        """Files with a word that matches."""
        found = 0
        for word, mask in self._masks.items():
            if pattern.search(word):
                found |= mask
        return found

    def having_part(self, part: str) -> int:
        """Files with a word that has `part` in it."""
        if part not in self._parts:
            self._parts[part] = self._search(part)
        return self._parts[part]

    def _search(self, part: str) -> int:
        """All distinct words of the project are one text of a megabyte: reading it takes less than asking 2,000 files."""
        text, found = self._listed, 0
        at = text.find(part)
        while at >= 0:
            end = text.index("\n", at)
            found |= self._masks[text[text.rindex("\n", 0, at) + 1:end]]
            at = text.find(part, end)
        return found

    @cached_property
    def _listed(self) -> str:
        return "\n".join(["", *self._masks, ""])
