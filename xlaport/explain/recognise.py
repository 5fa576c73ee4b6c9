"""Finds the messages of a log that the pages know, where they stand, and whose line led to them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from xlaport import exhaustion
from xlaport.exhaustion import Breakdown
from xlaport.explain.pages import Entry, Pattern, Role
from xlaport.explain.text import Line
from xlaport.explain.tracebacks import Frame, Traceback, Tracker

BLOCK = 2_000
"""Lines that are searched for literals at once."""

EXCERPT = 300
"""Characters of a message that are kept."""

ERROR = re.compile(
    r"(?:Error|Exception|Exit) ?:|Check failed|FATAL|CRITICAL|ERROR|^[EF]\d{4} |SIG(?:ABRT|SEGV|KILL|BUS)"
    r"|(?:RESOURCE_EXHAUSTED|INVALID_ARGUMENT|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|FAILED_PRECONDITION|NOT_FOUND|PERMISSION_DENIED): ",
    re.MULTILINE,
)
"""What a line looks like that tells of a failure, known or not."""

UNKNOWN = 20
TAIL = 50
"""Unknown lines that look like errors, and last lines of any kind, kept to name the nearest entries."""


@dataclass
class Found:
    """An entry and where it was recognised. `lines` is the first and the last line, `count` how many lines in all."""

    entry: Entry
    line: int
    message: str
    traceback: Traceback | None
    last: int
    count: int = 1
    block: list[str] = field(default_factory=list, repr=False)

    @property
    def frame(self) -> Frame | None:
        """The innermost line of the user's own code in the traceback of the first one."""
        return self.traceback.users_frame if self.traceback else None

    @property
    def breakdown(self) -> Breakdown | None:
        return exhaustion.parse(self.block) if self.block else None


@dataclass(frozen=True)
class Unrecognised:
    """The last exception no entry knows."""

    line: int
    message: str
    frame: Frame | None


@dataclass(frozen=True)
class Diagnosis:
    """`found` has what is most likely the root first. `clues` are lines to find near entries with."""

    lines: int
    found: tuple[Found, ...]
    unrecognised: Unrecognised | None
    clues: tuple[str, ...]

    @property
    def is_explained(self) -> bool:
        """Something was recognised, and it is more than a remark beside an exception nobody knows."""
        return bool(self.found) and not (self.unrecognised and all(found.entry.role is Role.NOTE for found in self.found))

    @property
    def leaves_questions(self) -> bool:
        """Something is not explained: near entries are named."""
        return not self.is_explained or self.unrecognised is not None


def recognise(lines: Iterable[Line], entries: tuple[Entry, ...]) -> Diagnosis:
    """Reads all lines once. Memory does not grow with them: an entry is kept once, with its first message."""
    reading = Reading(entries)
    stream = iter(lines)
    while block := list(islice(stream, BLOCK)):
        reading.block(block)
    return reading.diagnosis()


class Reading:
    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries
        self.found: dict[str, Found] = {}
        self.tracker = Tracker()
        self.clues: deque[str] = deque(maxlen=UNKNOWN)
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.collecting: list[Found] = []
        self.last = 0

    def block(self, block: list[Line]) -> None:
        text = "\n".join(line.text for line in block)
        possible = [(entry, patterns) for entry in self.entries if (patterns := [pattern for pattern in entry.patterns if pattern.literal in text])]
        errors = ERROR.search(text) is not None
        for line in block:
            self.line(line, possible, errors)
        self.last = block[-1].number

    def line(self, line: Line, possible: list[tuple[Entry, list[Pattern]]], errors: bool) -> None:
        traceback = self.tracker.feed(line)
        for found in self.collecting:
            found.block.append(line.text)
        self.collecting = [found for found in self.collecting if len(found.block) < exhaustion.LINES]
        matched = list(matching(line.text, traceback, possible))
        silent = {code for entry in matched for code in entry.over}
        for entry in matched:
            if entry.code not in silent:
                self.note(entry, line, traceback)
        if matched and traceback:
            traceback.recognised = True
        if errors and not matched and ERROR.search(line.text):
            self.clues.append(line.text[:EXCERPT])
        if line.text.strip():
            self.tail.append(line.text[:EXCERPT])

    def note(self, entry: Entry, line: Line, traceback: Traceback | None) -> None:
        known = self.found.get(entry.code)
        if known:
            known.count += 1
            known.last = line.number
            return
        found = Found(entry, line.number, line.text.strip()[:EXCERPT], traceback, line.number)
        self.found[entry.code] = found
        if entry.area == "memory":
            found.block.append(line.text)
            self.collecting.append(found)

    def diagnosis(self) -> Diagnosis:
        order = list(Role)
        found = sorted(self.found.values(), key=lambda one: (order.index(one.entry.role), one.line))
        left = self.tracker.finish()
        unrecognised = Unrecognised(left.message_line, left.message[:EXCERPT], left.users_frame) if left else None
        clues = [unrecognised.message] if unrecognised else list(self.clues) or list(self.tail)
        return Diagnosis(self.last, tuple(found), unrecognised, tuple(clues))


def matching(text: str, traceback: Traceback | None, possible: list[tuple[Entry, list[Pattern]]]) -> Iterator[Entry]:
    for entry, patterns in possible:
        if not any(pattern.literal in text and pattern.regex.search(text) for pattern in patterns):
            continue
        if entry.frames is None or (traceback and traceback.passes(entry.frames)):
            yield entry
