"""A profile from the records of one run, or of two: lines from the one, causes of compilations from the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from xlaport.runtime.places import Libraries, Place
from xlaport.runtime.profile import hlo
from xlaport.runtime.profile.difference import Difference, Graph, closest, difference
from xlaport.runtime.profile.model import Cause, Counts, Line, Stack, Step

REMEMBERED = 8
"""Graphs of one place that a new one is compared with."""

NO_GRAPH = Difference((), "XLA wrote no graph")


def stack_of(record: dict) -> Stack:
    return tuple(Place(*place) for place in record["stack"])


def training(records: Iterable[dict]) -> list[dict]:
    """The records from the first step of training on: ends of graphs before the first optimizer was made are no steps."""
    found = list(records)
    begins = [at for at, record in enumerate(found) if record["kind"] == "training"]
    return found[begins[-1] + 1 :] if begins else found


def steps(records: Iterable[dict]) -> tuple[Step, ...]:
    """Steps of training."""
    return tuple(
        Step(
            record["step"] + 1,
            record["seconds"],
            record["compiled"],
            record["compile_seconds"],
            record["launched"],
            record["forced"],
            record["transfers"],
            record["fallbacks"],
        )
        for record in training(records)
        if record["kind"] == "step"
    )


def lines(records: Iterable[dict]) -> tuple[Line, ...]:
    """Lines that did something, by file and number. Work after the last whole step counts for `total` only."""
    found = training(records)
    count = len(steps(found))
    total: dict[Place, Counts] = defaultdict(Counts)
    late: dict[Place, Counts] = defaultdict(Counts)
    stacks: dict[Place, Counter[Stack]] = defaultdict(Counter)
    for record in found:
        if record["kind"] != "work" or not record["stack"]:
            continue
        stack, counts = stack_of(record), counts_of(record)
        place = stack[0]
        total[place] += counts
        stacks[place][stack] += counts.events
        if count // 2 <= record["step"] < count or not count:
            late[place] += counts
    return tuple(Line(stacks[place].most_common(1)[0][0], total[place], late[place]) for place in sorted(total))


def counts_of(record: dict) -> Counts:
    return Counts(**{name: record[name] for name in Counts.__dataclass_fields__})


# -- compilations


def recompiles(records: Iterable[dict]) -> bool:
    """Whether training compiled a graph where it had compiled one before."""
    seen: set[Stack] = set()
    for record in training(records):
        if record["kind"] == "compiled":
            stack = stack_of(record)
            if stack in seen or record["count"] > 1:
                return True
            seen.add(stack)
    return False


def causes(records: Iterable[dict], graphs: Path) -> tuple[Cause, ...]:
    """Why graphs were compiled again, one cause for each line and place of launch, in the order they came up.

    `graphs` is the folder of the graphs that the records name.
    """
    libraries = Libraries(())
    known: dict[Stack, list[Graph]] = defaultdict(list)
    found: dict[tuple, list[tuple[Difference, dict]]] = defaultdict(list)
    for record in records:
        if record["kind"] == "device":
            libraries = Libraries(tuple(record["libraries"]))
        elif record["kind"] == "training":
            found.clear()
        elif record["kind"] == "compiled":
            trigger = stack_of(record)
            for what in explained(record, known[trigger], graphs, libraries):
                found[what.stack[:1] or what.text, trigger].append((what, record))
    return tuple(cause(trigger, entries) for (_, trigger), entries in found.items())


def explained(record: dict, known: list[Graph], folder: Path, libraries: Libraries) -> list[Difference]:
    """What differs in each graph of a record from those known at its place; the first there differs from nothing."""
    result = [NO_GRAPH] * (record["count"] - len(record["graphs"]))
    for name in record["graphs"]:
        graph = hlo.instructions((folder / name).read_bytes())
        if known:
            result.append(difference(closest(known, graph), graph, libraries))
        known.append(graph)
        del known[:-REMEMBERED]
    return result


def cause(trigger: Stack, entries: Sequence[tuple[Difference, dict]]) -> Cause:
    first = entries[0][0]
    numbers = tuple(dict.fromkeys(record["step"] + 1 for _, record in entries))
    seconds = sum(record["seconds"] / record["count"] for _, record in entries)
    return Cause(first.stack, trigger, first.text, len(entries), numbers, seconds)
