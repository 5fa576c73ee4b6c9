"""Commands and words of shell text, with their places: enough of the grammar to know what is code and what is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "time", "{", "exec", "nohup"})
HEREDOC = re.compile(r"<<-?\s*(?P<quote>['\"\\]?)(?P<word>\w+)")
CONTINUATION = re.compile(r"\\\r?\n")
REDIRECTION = re.compile(r"\d*[<>]+&?\d*-?|&>+")
PLAIN = re.compile(r"[^\s;&|()<>\\'\"`$]+")
ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """Characters `start:end` as written, quotes and all."""

    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """Without the quotes around it."""
        if len(self.text) > 1 and self.text[0] == self.text[-1] and self.text[0] in "\"'":
            return self.text[1:-1]
        return self.text


@dataclass(frozen=True)
class Command:
    """A simple command. `first`: it starts its line; `last`: it ends one; `background`: the script does not wait for it."""

    words: tuple[Word, ...]
    first: bool
    last: bool
    background: bool = False

    @cached_property
    def assignments(self) -> tuple[Word, ...]:
        """The leading `NAME=value` words."""
        count = next((i for i, word in enumerate(self.words) if not ASSIGNMENT.match(word.text)), len(self.words))
        return self.words[:count]

    @cached_property
    def call(self) -> tuple[Word, ...]:
        """The command without leading assignments."""
        return self.words[len(self.assignments) :]


def commands(text: str, start: int = 0, end: int | None = None) -> list[Command]:
    """All simple commands between two offsets, those inside `$(...)` left in their word."""
    return Lexer(text, start, len(text) if end is None else end).commands()


class Lexer:
    def __init__(self, text: str, start: int, end: int):
        self.text, self.position, self.end = text, start, end
        self.found: list[Command] = []
        self.words: list[Word] = []
        self.heredocs: list[str] = []
        self.at_line_start = True

    def commands(self) -> list[Command]:
        while self.position < self.end:
            character = self.text[self.position]
            if character in " \t\r":
                self.position += 1
            elif character == "\\" and (continued := CONTINUATION.match(self.text, self.position)):
                self.position = continued.end()
            elif character == "#":
                self.position = self.line_end()
            elif character == "\n":
                self.close(last=True)
                self.position += 1
                self.skip_heredocs()
                self.at_line_start = True
            elif character in "<>&0123456789" and self.redirection():
                pass
            elif character in ";&|()":
                self.close(last=False, background=self.is_background())
                self.position += 1
                self.at_line_start = False
            else:
                self.word()
        self.close(last=True)
        return self.found

    def is_background(self) -> bool:
        around = self.text[max(self.position - 1, 0) : self.position + 2]
        return self.text[self.position] == "&" and around.count("&") == 1

    def close(self, last: bool, background: bool = False) -> None:
        words = self.words
        opened = 0
        while opened < len(words) and words[opened].text in KEYWORDS:
            opened += 1
        if words[opened:]:
            self.found.append(Command(tuple(words[opened:]), self.at_line_start and not opened, last, background))
        self.words = []

    def redirection(self) -> bool:
        heredoc = HEREDOC.match(self.text, self.position, self.end)
        if heredoc and not self.text.startswith("<<<", self.position):
            self.heredocs.append(heredoc["word"])
            self.position = heredoc.end() + len(heredoc["quote"].strip("\\"))
            return True
        found = REDIRECTION.match(self.text, self.position, self.end)
        if not found:
            return False
        self.position = found.end()
        return True

    def skip_heredocs(self) -> None:
        for word in self.heredocs:
            while self.position < self.end:
                stop = self.line_end()
                line, self.position = self.text[self.position : stop].strip(), min(stop + 1, self.end)
                if line == word:
                    break
        self.heredocs = []

    def line_end(self) -> int:
        end = self.text.find("\n", self.position, self.end)
        return self.end if end < 0 else end

    def word(self) -> None:
        start = self.position
        while self.position < self.end:
            plain = PLAIN.match(self.text, self.position, self.end)
            if plain:
                self.position = plain.end()
            elif self.text[self.position] in " \t\r\n;&|()<>" or CONTINUATION.match(self.text, self.position):
                break
            else:
                self.position = self.after_part(self.position)
        self.words.append(Word(self.text[start : self.position], start, self.position))

    def after_part(self, position: int) -> int:
        """Behind a character, an escape, a quoted part or an expansion."""
        character = self.text[position]
        if character == "\\":
            return min(position + 2, self.end)
        if character == "'":
            return self.behind("'", position + 1)
        if character in '"`':
            return self.quoted(position)
        if self.text.startswith(("$(", "${"), position):
            return self.expansion(position)
        return position + 1

    def behind(self, mark: str, position: int) -> int:
        found = self.text.find(mark, position, self.end)
        return self.end if found < 0 else found + len(mark)

    def quoted(self, position: int) -> int:
        mark = self.text[position]
        position += 1
        while position < self.end and self.text[position] != mark:
            if mark == '"' and self.text.startswith("$(", position):
                position = self.expansion(position)
            else:
                position += 2 if self.text[position] == "\\" else 1
        return min(position + 1, self.end)

    def expansion(self, position: int) -> int:
        """Behind `$(...)`, `$((...))` or `${...}`."""
        opening = self.text[position + 1]
        closing = ")" if opening == "(" else "}"
        position, depth = position + 2, 1
        while position < self.end:
            character = self.text[position]
            if character == closing:
                depth -= 1
                if not depth:
                    return position + 1
            depth += character == opening == "("
            position = self.after_part(position)
        return self.end
