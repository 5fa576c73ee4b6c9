"""Comments that suppress nothing (XP003)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xlaport.findings import Danger, Finding, Fix, Grade, Location, Severity
from xlaport.rewrite.ops import ReplaceText, Span
from xlaport.source import SourceFile
from xlaport.suppress import Ignore, Suppressions

CODE, NAME = "XP003", "unused-suppression"


def findings(source: SourceFile, silenced: Suppressions, found: Iterable[Finding], known: frozenset[str]) -> Iterator[Finding]:
    """One finding a comment. `found` is what rules say without regard to comments, `known` the codes of all rules.

    A code that is not known may be that of a rule of the user's own that this run did not load, unless it starts like ours.
    """
    at_line: dict[int, set[str]] = {}
    for finding in found:
        at_line.setdefault(finding.location.line, set()).add(finding.code)
    for ignore in silenced.ignores:
        used = at_line.get(ignore.line, set())
        idle = [code for code in ignore.codes if code not in used and (code in known or code.startswith("XP"))]
        if idle or not ignore.codes and not used:
            yield finding_for(source, ignore, idle, known)


def finding_for(source: SourceFile, ignore: Ignore, idle: list[str], known: frozenset[str]) -> Finding:
    place = Location(ignore.line, ignore.start + 1, ignore.line, ignore.end + 1)
    fix = Fix(Grade.SAFE, (without(source, ignore, idle),))
    return Finding(CODE, NAME, source.name, place, message(idle, known), Severity.WARNING, Danger.NONE, fix, is_idiom=False)


def message(idle: list[str], known: frozenset[str]) -> str:
    if not idle:
        return "suppresses nothing: no rule finds anything on this line"
    unknown = [code for code in idle if code not in known]
    if unknown:
        return f"suppresses nothing: there is no rule {', '.join(unknown)}"
    return f"suppresses nothing: {', '.join(idle)} {'is' if len(idle) == 1 else 'are'} not found on this line"


def without(source: SourceFile, ignore: Ignore, idle: list[str]) -> ReplaceText:
    """The comment without its idle codes; without any code left it goes, with the reason behind it."""
    line = source.lines[ignore.line - 1]
    kept = [code for code in ignore.codes if code not in idle]
    if kept:
        return replacement(source, ignore.line, ignore.start, ignore.end, f"# xlaport: ignore[{', '.join(kept)}]")
    body = line.rstrip("\r\n")
    other = body.find("#", ignore.end)
    before = body[: ignore.start].rstrip()
    if other >= 0:
        return replacement(source, ignore.line, ignore.start, other, "")
    if before:
        return replacement(source, ignore.line, len(before), len(body), "")
    return replacement(source, ignore.line, 0, len(line), "")


def replacement(source: SourceFile, number: int, start: int, end: int, text: str) -> ReplaceText:
    line = source.lines[number - 1]
    first, last = (source.byte_offset(number, len(line[:column].encode("utf-8"))) for column in (start, end))
    return ReplaceText(Span(first, last), text)
