"""Why XLA compiled again: where a graph differs from one that was compiled at the same place before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xlaport.runtime.places import Libraries, Place
from xlaport.runtime.profile.hlo import Instruction

Graph = Sequence[Instruction]

CONSTANTS = ("prim::Constant", "")
INPUT = "xla::device_data"


@dataclass(frozen=True)
class Difference:
    """`stack` holds the program's lines of the first instruction that differs, innermost first; empty where it has none."""

    stack: tuple[Place, ...]
    text: str


def closest(graphs: Sequence[Graph], graph: Graph) -> Graph:
    """The graph that differs in the fewest instructions, the latest of several."""
    wanted = Counter(row.content for row in graph)

    def distance(other: Graph) -> int:
        held = Counter(row.content for row in other)
        return (wanted - held).total() + (held - wanted).total()

    return min(reversed(graphs), key=distance)


def difference(before: Graph, after: Graph, libraries: Libraries) -> Difference:
    """The first instruction of `after` that `before` has not, as instructions follow each other in the step."""
    start = common(before, after)
    old, new = before[start:], after[start:]
    added, removed = excess(new, old), excess(old, new)
    if not added and not removed:
        return rewired(before, after, libraries)
    row = next((row for row in (*added, *removed) if program_lines(row, libraries)), (added or removed)[0])
    lines = program_lines(row, libraries)
    if row.opcode == "tuple":
        return Difference(lines, "other tensors are alive when the graph is launched")
    if not any(row is one for one in added):
        return Difference(lines, f"{named(row)} is not there any more")
    partner = counterpart(row, added, removed)
    return Difference(lines, changed(partner, row) if partner is not None else f"{named(row)} was not there before")


def common(before: Graph, after: Graph) -> int:
    """How many instructions at the beginning are the same."""
    return next((at for at, (a, b) in enumerate(zip(before, after)) if a.content != b.content), min(len(before), len(after)))


def excess(rows: Graph, others: Graph) -> list[Instruction]:
    """Rows that `others` does not have, or not as often, in order."""
    held = Counter(row.content for row in others)
    found = []
    for row in rows:
        held[row.content] -= 1
        if held[row.content] < 0:
            found.append(row)
    return found


def counterpart(row: Instruction, added: Graph, removed: Graph) -> Instruction | None:
    """What was there instead: of the instructions of its kind, the one as far down."""
    ours = [other for other in added if (other.opcode, other.operator) == (row.opcode, row.operator)]
    theirs = [other for other in removed if (other.opcode, other.operator) == (row.opcode, row.operator)]
    at = next(index for index, other in enumerate(ours) if other is row)
    return theirs[at] if at < len(theirs) else None


def rewired(before: Graph, after: Graph, libraries: Libraries) -> Difference:
    """The same instructions, computed from other ones."""
    pairs = zip(before, after)
    row = next((b for a, b in pairs if a.inputs != b.inputs and program_lines(b, libraries)), None)
    if row is None:
        return Difference((), "the same instructions with other inputs or outputs")
    return Difference(program_lines(row, libraries), f"{named(row)} has other inputs")


def program_lines(row: Instruction, libraries: Libraries) -> tuple[Place, ...]:
    return tuple(place for place in row.frames if not libraries.owns(place.file))


def named(row: Instruction) -> str:
    """`aten::pow f32[4,8]`, `the number 0.5`, `an input f32[4,8]`."""
    if row.opcode == "constant" and row.detail:
        return f"the number {row.detail}"
    if row.operator == INPUT:
        return f"an input {row.shape}"
    name = row.operator if row.operator not in CONSTANTS else row.opcode
    return f"{name} {row.shape}" + (f" of [{row.detail}]" if row.detail else "")


def changed(before: Instruction, after: Instruction) -> str:
    """What is other than it was, as `now, before: then`."""
    if before.shape != after.shape or before.detail != after.detail:
        return f"{named(after)}, before: {named(before)}"
    return f"{named(after)} with other settings"
