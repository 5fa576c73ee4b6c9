"""A project file as the modules of this package see it: its text, where lines end, and how a finding is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xlaport.findings import Danger, Finding, Fix, Grade, Location, Severity
from xlaport.rewrite.ops import ReplaceText, Span
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule
from xlaport.source import SourceFile
from xlaport.targets.base import Target


@dataclass(frozen=True)
class Edit:
    """Characters `start:end` of the text become `text`."""

    start: int
    end: int
    text: str = ""


@lru_cache(maxsize=8)
def pages(target: str) -> dict[str, Rule]:
    """The rules for project files as they are on a target, by code; those that say nothing there are left out."""
    return {rule.code: rule for rule in load.seen_on(load.builtin(), target, "cuda") if rule.match.files}


@lru_cache(maxsize=1)
def everywhere() -> dict[str, Rule]:
    """The rules for project files as their pages have them, by code."""
    return {rule.code: rule for rule in load.builtin() if rule.match.files}


@dataclass(frozen=True)
class View:
    """All offsets are in characters of the text without its BOM."""

    source: SourceFile
    target: Target
    started: Mapping[str, str] = field(default_factory=dict)
    """Python files of the port that are started plainly, by name, and why."""

    @property
    def text(self) -> str:
        return self.source.text

    @cached_property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where the content of the line ends, before its newline."""
        end = self.text.find("\n", offset)
        if end < 0:
            return len(self.text)
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def indent(self, offset: int) -> str:
        line = self.text[self.line_start(offset) : self.line_end(offset)]
        return line[: len(line) - len(line.lstrip())]

    def without_lines(self, start: int, end: int) -> Edit:
        """Takes out the lines that hold `start:end`; a file without a final newline keeps to have none."""
        first, last = self.line_start(start), self.text.find("\n", end)
        if last >= 0:
            return Edit(first, last + 1)
        before = first - len(self.newline) if first else 0
        return Edit(before, len(self.text))

    def line_after(self, offset: int, line: str) -> Edit:
        """A new line below the one that holds `offset`."""
        end = self.line_end(offset)
        return Edit(end, end, self.newline + line)

    def finding(
        self,
        code: str,
        start: int,
        end: int,
        message: str,
        edits: Iterable[Edit] | None = None,
        *,
        grade: Grade | None = None,
        danger: Danger | None = None,
    ) -> Finding:
        """A finding of the page `code` at `start:end`; with `edits`, its fix.

        What the page leaves to a person on the target is left, with the page's sentence.
        """
        rule, fix = pages(self.target.name).get(code) or everywhere()[code], None
        if rule.left_with:
            message, edits = self.target.expand(rule.left_with), None
        if edits is not None:
            operations = tuple(ReplaceText(self.span(edit.start, edit.end), edit.text) for edit in edits)
            fix = Fix(grade or (rule.grade if rule.grade is not Grade.MANUAL else Grade.REQUIRED), operations)
        span = self.span(start, end)
        place = Location(*self.source.position(span.start), *self.source.position(span.end))
        severity = rule.severity if danger is not Danger.NONE else Severity.NOTE
        return Finding(code, rule.name, self.source.name, place, message, severity, danger or rule.danger, fix)

    def span(self, start: int, end: int) -> Span:
        if self.text.isascii():
            return Span(start, end)
        first = len(self.text[:start].encode("utf-8"))
        return Span(first, first + len(self.text[start:end].encode("utf-8")))


def spliced(text: str, operations: Iterable[ReplaceText]) -> str:
    """The text with the operations done. They must not overlap."""
    raw = text.encode("utf-8")
    pieces, done = [], 0
    for operation in sorted(operations, key=lambda op: (op.span.start, op.span.end)):
        pieces += [raw[done : operation.span.start], operation.text.encode("utf-8")]
        done = operation.span.end
    return b"".join([*pieces, raw[done:]]).decode("utf-8")


def overlap(operation: ReplaceText, others: Iterable[ReplaceText]) -> bool:
    """Two insertions at one place do not overlap; an insertion at the border of a replacement does not either."""
    start, end = operation.span.start, operation.span.end
    return any(start < other.span.end and other.span.start < end for other in others)
