"""Why a program's step does not repeat: what differs between its last two. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from xlaport.preflight.trace.stablehlo import Program

SHOWN = 3


@dataclass(frozen=True)
class Graph:
    """One sync: its program and what its arguments are called."""

    program: Program
    names: tuple[str, ...]


def cause(before: Graph, after: Graph, is_users: Callable[[str], bool]) -> str:
    """The difference between two steps in a sentence, with lines where they are known."""
    shapes = changed_shapes(before, after)
    if shapes:
        return f"shapes change from step to step: {'; '.join(shapes[:SHOWN])}"
    first, second = before.program.operations, after.program.operations
    if Counter(operation.name for operation in first) != Counter(operation.name for operation in second):
        lines = other_lines(before.program, after.program, is_users)
        return f"other operations run from step to step, {len(first)} and then {len(second)}{at(lines)}"
    lines = changed_numbers(before.program, after.program, is_users)
    if lines is not None:
        return f"a Python number that changes is part of the graph, and each value is another program{at(lines)}"
    return "the same operations give other results"


def at(lines: list[str]) -> str:
    return f" (at {', '.join(lines[:SHOWN])})" if lines else ""


def changed_shapes(before: Graph, after: Graph) -> list[str]:
    """Named arguments that have another type; without names, types that only one of the two has."""
    first, second = (dict(zip(graph.names, graph.program.types)) for graph in (before, after))
    named = [f"{name} is {first[name]}, then {second[name]}" for name in first if name and name in second and first[name] != second[name]]
    if named:
        return named
    gone, came = Counter(before.program.types), Counter(after.program.types)
    left, new = list((gone - came).elements()), list((came - gone).elements())
    return [f"{old}, then {young}" for old, young in zip(left, new)] if left and len(left) == len(new) else []


def other_lines(before: Program, after: Program, is_users: Callable[[str], bool]) -> list[str]:
    """Lines of the user's that make more operations in one of the two."""
    counts = [Counter(program.line(operation, is_users) for operation in program.operations) for program in (before, after)]
    more = (counts[0] - counts[1]) + (counts[1] - counts[0])
    return [line for line, _ in more.most_common() if line]


def changed_numbers(before: Program, after: Program, is_users: Callable[[str], bool]) -> list[str] | None:
    """Lines whose operations differ in a constant or an attribute; None when none does."""
    pairs = [(first, second) for first, second in zip(before.operations, after.operations) if first.said != second.said]
    if not pairs:
        return None
    found = dict.fromkeys(after.line(second, is_users) for _, second in pairs)
    return [line for line in found if line]
