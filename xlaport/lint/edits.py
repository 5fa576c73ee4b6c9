"""Fixes as replacements of text, which editors and code hosts can apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlaport import engine
from xlaport.config import Settings
from xlaport.diagnostics import TextEdit
from xlaport.errors import NotRewritable
from xlaport.findings import Finding
from xlaport.rewrite.ops import ReplaceText
from xlaport.source import SourceFile, lines_of


def edits_of(source: SourceFile, findings: list[Finding], settings: Settings) -> list[tuple[TextEdit, ...]]:
    """For each finding the edits its fix makes when it is applied alone; none where it cannot be."""
    texts = dict(zip((f for f in findings if not is_textual(f)), after_each(source, findings, settings)))
    texts |= {f: spliced(source.text, [f]) for f in findings if is_textual(f)}
    return [tuple(in_parts(source, texts[f])) if texts.get(f) is not None else () for f in findings]


def in_parts(source: SourceFile, text: str) -> Iterator[TextEdit]:
    """What turns a file into one with that text; in a notebook, cell by cell."""
    for (cell, before), (_, after) in zip(source.divided(source.text), source.divided(text)):
        yield from (replace(edit, cell=cell) for edit in replacements(before, after))


def is_textual(finding: Finding) -> bool:
    return all(isinstance(op, ReplaceText) for op in finding.fix.ops)


def after_each(source: SourceFile, findings: list[Finding], settings: Settings) -> Iterator[str | None]:
    fixes = [f.fix.ops for f in findings if not is_textual(f)]
    if not fixes:
        return
    from xlaport.rewrite.apply import apply_each

    try:
        yield from apply_each(source.text, fixes, settings.profile.imports)
    except NotRewritable:
        return
    except Exception:  # noqa: BLE001 - a fix that fails is a finding without edits; `--fix` names the failure
        if engine.RAISE_RULE_ERRORS:
            raise


def spliced(text: str, findings: list[Finding]) -> str:
    """The text after fixes that are textual, which do not overlap."""
    raw = text.encode("utf-8")
    ops = sorted((op for f in findings for op in f.fix.ops), key=lambda op: op.span.start, reverse=True)
    for op in ops:
        raw = raw[: op.span.start] + op.text.encode("utf-8") + raw[op.span.end:]
    return raw.decode("utf-8")


def replacements(before: str, after: str) -> Iterator[TextEdit]:
    """What turns one text into another: changed lines, cut to the characters that differ."""
    old, new = lines_of(before), lines_of(after)
    head = shared(old, new)
    tail = shared(old[head:][::-1], new[head:][::-1])
    from difflib import SequenceMatcher  # here, as only edits need it

    matcher = SequenceMatcher(None, old[head:len(old) - tail], new[head:len(new) - tail], autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag != "equal":
            yield replacement(old, head + a1, head + a2, "".join(new[head + b1:head + b2]))


def replacement(lines: list[str], first: int, last: int, content: str) -> TextEdit:
    removed = "".join(lines[first:last])
    head = shared(removed, content)
    tail = shared(removed[head:][::-1], content[head:][::-1])
    start = place(lines, first, head)
    end = place(lines, first, len(removed) - tail)
    return TextEdit(*start, *end, content[head:len(content) - tail])


def place(lines: list[str], line: int, offset: int) -> tuple[int, int]:
    """Line and column, from 1, that many characters after the start of a line counted from 0."""
    while line < len(lines) and offset >= len(lines[line]) and lines[line].endswith(("\n", "\r")):
        offset -= len(lines[line])
        line += 1
    return line + 1, offset + 1


def shared(first, second) -> int:
    """How many items two sequences start with alike."""
    limit = min(len(first), len(second))
    return next((index for index in range(limit) if first[index] != second[index]), limit)
