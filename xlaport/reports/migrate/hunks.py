"""The edits of one file as hunks, each block of lines with the findings it was edited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from xlaport.findings import Finding
from xlaport.reports.migrate.model import Hunk, Reason
from xlaport.source import SourceFile, lines_of

CONTEXT = 2
"""Lines shown above and below a block."""

REACH = 3
"""Lines an edit may lie away from its finding and still be shown as its edit."""

LONGEST = 1000
"""Characters of a line that are kept: data in one line can have millions."""


class Block(NamedTuple):
    """Lines `[old:old_end]` became `[new:new_end]`, counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def of(before: SourceFile, after: SourceFile, applied: Sequence[Finding]) -> tuple[Hunk, ...]:
    """`applied` have lines of `before`, those of a notebook in their cells."""
    if before.raw == after.raw:
        return ()
    pairs = zip(before.divided(before.text), after.divided(after.text))
    return tuple(hunk for (cell, old), (_, new) in pairs if old != new for hunk in of_text(cell, bare(old), bare(new), applied))


def of_text(cell: int | None, old: list[str], new: list[str], applied: Sequence[Finding]) -> Iterator[Hunk]:
    found = blocks(old, new)
    nearest = {index: block for index, finding in enumerate(applied) if finding.location.cell == cell and (block := block_of(finding, found))}
    for group in neighbours(found):
        yield hunk(cell, old, new, group, nearest)


def blocks(old: list[str], new: list[str]) -> list[Block]:
    """What differs. Equal lines at both ends are left out of the search, whose time grows with the square of what repeats."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    return [Block(head + a, head + b, head + c, head + d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def block_of(finding: Finding, found: Sequence[Block]) -> Block | None:
    first, last = finding.location.line - 1, finding.location.end_line
    near = (block for block in found if block.old <= last + REACH and block.old_end >= first - REACH)
    return min(near, key=lambda block: distance(block, first, last), default=None)


def distance(block: Block, first: int, last: int) -> int:
    """0 for a block on the finding's first line, else how far its start is from the finding's ends."""
    if block.old <= first < block.old_end:
        return 0
    return 1 + min(abs(block.old - first), abs(block.old - last))


def neighbours(found: Sequence[Block]) -> list[list[Block]]:
    """Blocks whose surroundings meet, together."""
    groups: list[list[Block]] = []
    for block in found:
        if groups and block.old - groups[-1][-1].old_end <= 2 * CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def hunk(cell: int | None, old: list[str], new: list[str], group: list[Block], nearest: dict[int, Block]) -> Hunk:
    above = min(CONTEXT, group[0].old)
    lines, reasons, at = [], [], group[0].old - above
    for block in group:
        lines += [f" {short(line)}" for line in old[at : block.old]]
        reasons += [Reason(len(lines), index) for index, edited in nearest.items() if edited == block]
        lines += [f"-{short(line)}" for line in old[block.old : block.old_end]]
        lines += [f"+{short(line)}" for line in new[block.new : block.new_end]]
        at = block.old_end
    lines += [f" {short(line)}" for line in old[at : at + CONTEXT]]
    return Hunk(group[0].old - above + 1, group[0].new - above + 1, tuple(lines), tuple(reasons), cell)


def bare(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in lines_of(text)]


def short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}… ({len(line) - LONGEST} characters more)"
