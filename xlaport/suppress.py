"""Suppression comments: `# xlaport: ignore[XP301]` on a line, `# xlaport: skip-file` anywhere."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

COMMENT = re.compile(r"#\s*xlaport:\s*(skip-file|ignore(?:\[([\w,\s]*)\])?)")


@dataclass(frozen=True)
class Ignore:
    """One `ignore` comment of a Python file. `start:end` are characters of its line; no codes mean all."""

    line: int
    start: int
    end: int
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Suppressions:
    """Codes silenced by line (an empty set silences all), and whether the file is skipped."""

    lines: dict[int, frozenset[str]]
    skip_file: bool = False
    ignores: tuple[Ignore, ...] = ()

    def silence(self, code: str, first_line: int, last_line: int) -> bool:
        for line in range(first_line, last_line + 1):
            codes = self.lines.get(line)
            if codes is not None and (not codes or code in codes):
                return True
        return False


NONE = Suppressions({})


def read(text: str) -> Suppressions:
    """The suppressions in a file's comments (not in its strings)."""
    if "xlaport:" not in text:
        return NONE
    ignores: list[Ignore] = []
    skip = False
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            found = COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if found is None:
                continue
            if found[1] == "skip-file":
                skip = True
            else:
                line, column = token.start
                codes = (code.strip() for code in (found[2] or "").split(","))
                ignores.append(Ignore(line, column + found.start(), column + found.end(), tuple(code for code in codes if code)))
    except (tokenize.TokenError, SyntaxError):
        return NONE
    return Suppressions({ignore.line: frozenset(ignore.codes) for ignore in ignores}, skip, tuple(ignores))
