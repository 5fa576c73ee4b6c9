"""Tracebacks in a log, as they come by: whose line failed. Several processes may write into each other, told apart by their prefix."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from xlaport.explain.text import Line

FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>[\w<>.]+))?'
    r"|\bFile (?P<ipython>[^\s\"]+):(?P<number>\d+), in (?P<called>[\w<>.]+)"
    r"|(?P<cell>Cell In ?\[\d+\]), line (?P<row>\d+)"
)
STARTS = "Traceback (most recent call last)"
DUMP = "(most recent call first):"
INSTALLED = re.compile(r"(?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3|^<(?!ipython|stdin|string)|[/\\]Lib[/\\]\w+\.py$|^/usr/local/lib/python")
TIMESTAMP = re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+:]*\]?")
FRAMES = 200
"""Frames kept of one traceback: the last ones, or the first of a dump."""

PREFIXES = 64
"""Writers told apart."""

MESSAGE_LINES = 30
"""Lines of an exception's message that still belong to its traceback."""


@dataclass(frozen=True)
class Frame:
    """One call. `code` is the line of source below it, as far as the log has it."""

    file: str
    line: int
    function: str
    code: str = ""

    @property
    def is_users(self) -> bool:
        """Not of Python, nor of an installed package."""
        return not INSTALLED.search(self.file)


@dataclass
class Traceback:
    """`message` is the exception's first line; `newest_first` is a dump of faulthandler or py-spy."""

    start: int
    newest_first: bool = False
    frames: deque[Frame] = field(default_factory=lambda: deque(maxlen=FRAMES))
    message: str = ""
    message_line: int = 0
    lines_after: int = 0
    recognised: bool = False

    @property
    def users_frame(self) -> Frame | None:
        """The innermost call of the user's own code."""
        frames = self.frames if self.newest_first else reversed(self.frames)
        return next((frame for frame in frames if frame.is_users), None)

    def passes(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(frame.file) for frame in self.frames)


class Tracker:
    """Feed it every line; it answers with the traceback the line belongs to."""

    def __init__(self) -> None:
        self.open: dict[str, Traceback] = {}
        self.last_unrecognised: Traceback | None = None

    def feed(self, line: Line) -> Traceback | None:
        text = line.text
        if STARTS in text:
            return self.begin(line, text.index(STARTS), newest_first=False)
        if DUMP in text:
            return self.begin(line, min(text.find(word) for word in ("Thread", "Current thread", "Stack", DUMP) if word in text), newest_first=True)
        frame = FRAME.search(text) if "line " in text or "File " in text else None
        if frame:
            return self.add(line, frame)
        return self.rest(line) if self.open else None

    def begin(self, line: Line, at: int, newest_first: bool) -> Traceback:
        self.close(writer(line.text[:at]))
        if len(self.open) >= PREFIXES:
            self.close(next(iter(self.open)))
        return self.open.setdefault(writer(line.text[:at]), Traceback(line.number, newest_first))

    def add(self, line: Line, found: re.Match[str]) -> Traceback:
        """A frame; one without a beginning (the log was cut) begins a traceback of its own."""
        key = writer(line.text[: found.start()])
        traceback = self.open.get(key)
        if traceback is None or traceback.message:
            traceback = self.begin(line, found.start(), newest_first=False)
        file, number, function = (
            found["file"] or found["ipython"] or found["cell"], int(found["line"] or found["number"] or found["row"]), found["function"] or found["called"] or ""
        )
        if not (traceback.newest_first and len(traceback.frames) == FRAMES):
            traceback.frames.append(Frame(file, number, function))
        return traceback

    def rest(self, line: Line) -> Traceback | None:
        """Source code below a frame, the exception, or what its message goes on with."""
        plain = TIMESTAMP.sub("", line.text)
        key = max((key for key in self.open if plain.lstrip().startswith(key)), key=len, default=None)
        if key is None:
            return None
        traceback, text = self.open[key], plain.lstrip()[len(key) :] if key else plain
        if not text.strip():
            if traceback.message:
                self.close(key)
            return traceback
        if not traceback.message and text.startswith("   "):
            self.below_frame(traceback, line.text.strip())
            return traceback
        if not traceback.message:
            traceback.message, traceback.message_line = text.strip(), line.number
        traceback.lines_after += 1
        if traceback.lines_after > MESSAGE_LINES:
            self.close(key)
        return traceback

    def below_frame(self, traceback: Traceback, code: str) -> None:
        if traceback.frames and not traceback.frames[-1].code and set(code) - set("^~ "):
            last = traceback.frames.pop()
            traceback.frames.append(Frame(last.file, last.line, last.function, code[:200]))

    def close(self, key: str) -> None:
        traceback = self.open.pop(key, None)
        if traceback and traceback.message and not traceback.recognised:
            self.last_unrecognised = traceback

    def finish(self) -> Traceback | None:
        """At the end of the log: the last exception that nothing was said of."""
        for key in list(self.open):
            self.close(key)
        return self.last_unrecognised


def writer(prefix: str) -> str:
    """Who wrote a line, from what stands before its text: `[rank0]:`, `stderr:`, a pod's name. Times differ from line to line."""
    return TIMESTAMP.sub("", prefix).strip()
