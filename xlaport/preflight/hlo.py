"""What the compiled program says of itself: cycles of its cost model, loops, collectives. Reads HLO text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

BYTES = {
    "pred": 1, "s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8,
    "c64": 8, "f8e4m3fn": 1, "f8e5m2": 1, "f8e4m3b11fnuz": 1,
}
COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
CALLED = re.compile(r"\b(?:calls|to_apply|true_computation|false_computation|body)=%?([\w.\-]+)")
BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
WHILE = re.compile(r" while\(.*condition=%?([\w.\-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
COLLECTIVE = re.compile(r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute)(-start)?\(")
ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """One kind of exchange between chips. `bytes` are those of its results on one device, over a step."""

    kind: str
    count: int
    bytes: int
    group: int
    """Devices that take part in one, the most of all of the kind."""


@dataclass(frozen=True)
class Optimized:
    """`cycles` are the compiler's own estimate of a step, without its collectives, which carry none.

    `uncosted` counts custom calls without an estimate; `unknown_loops` loops that were counted once.
    """

    cycles: int
    costed: int
    uncosted: int
    loops: int
    unknown_loops: int
    collectives: tuple[Collective, ...]


@dataclass
class Program:
    """Computations by name, each its lines, and how often each runs in a step."""

    lines: dict[str, list[str]]
    entry: str
    runs: dict[str, int] = field(default_factory=dict)
    loops: int = 0
    unknown_loops: int = 0

    def run(self, name: str, times: int) -> None:
        if name not in self.lines or self.runs.get(name, 0) >= times:
            return  # a clone for an asynchronous pair is called from both of its ends, and runs once
        self.runs[name] = times
        for line in self.lines[name]:
            inner = times
            loop = WHILE.search(line)
            if loop:
                inner = times * self.trips(line, loop.group(1))
            for called in self.called(line):
                self.run(called, inner)

    def called(self, line: str) -> Iterator[str]:
        yield from CALLED.findall(line)
        branches = BRANCHES.search(line)
        if branches:
            yield from (name.strip().lstrip("%") for name in branches.group(1).split(","))

    def trips(self, line: str, condition: str) -> int:
        """How often a loop runs: as it says, or by the constant its counter is compared with."""
        self.loops += 1
        told = TRIPS.search(line)
        bound = int(told.group(1)) if told else self.bound(self.lines.get(condition, []))
        if bound is None:
            self.unknown_loops += 1
            return 1
        return bound

    def bound(self, condition: list[str]) -> int | None:
        """Loops of windowed products carry no trip count; their condition is `counter < CONSTANT`."""
        root = next((line for line in condition if "ROOT" in line and "direction=LT" in line), None)
        if root is None:
            return None
        for name in re.findall(r"%([\w.\-]+)", root.partition("compare(")[2]):
            for line in condition:
                constant = re.search(rf"%{re.escape(name)} = \S+ constant\((\d+)\)", line)
                if constant:
                    return int(constant.group(1))
        return None


def read(text: str) -> Optimized:
    """Sums up a compiled program. A text without an ENTRY gives nothing but zeros."""
    program = parse(text)
    program.run(program.entry, 1)
    cycles = costed = uncosted = 0
    for name, times in program.runs.items():
        for line in program.lines[name]:
            found = CYCLES.search(line)
            if found:
                cycles += times * int(found.group(1))
                costed += 1
            elif 'custom_call_target="tpu_custom_call"' in line:
                uncosted += times
    return Optimized(cycles, costed, uncosted, program.loops, program.unknown_loops, collectives(program))


def parse(text: str) -> Program:
    lines: dict[str, list[str]] = {}
    entry, current = "", None
    for line in text.splitlines():
        opens = COMPUTATION.match(line)
        if opens:
            current = lines.setdefault(opens.group(2), [])
            entry = opens.group(2) if opens.group(1) else entry
        elif line.startswith("}"):
            current = None
        elif current is not None:
            current.append(line)
    return Program(lines, entry)


def collectives(program: Program) -> tuple[Collective, ...]:
    """By kind. The partitioner gives each exchange one channel, which the halves and clones of an asynchronous one share."""
    seen: dict[tuple[str, str], tuple[int, int, int]] = {}
    for name, lines in program.lines.items():
        times = program.runs.get(name, 0)
        for line in lines if times else ():
            found = COLLECTIVE.search(line)
            if found:
                channel = re.search(r"channel_id=(\d+)", line)
                key = found.group(2), channel.group(1) if channel else line
                entry = times, times * moved(found), group_size(line)
                seen[key] = max(seen.get(key, entry), entry)
    kinds = sorted({kind for kind, _ in seen})
    return tuple(summed(kind, [entry for (other, _), entry in seen.items() if other == kind]) for kind in kinds)


def summed(kind: str, entries: list[tuple[int, int, int]]) -> Collective:
    return Collective(kind, sum(count for count, _, _ in entries), sum(size for _, size, _ in entries), max(group for _, _, group in entries))


def moved(found: re.Match) -> int:
    """Bytes of a collective's result; the start of an asynchronous gather or permute returns its operand beside it."""
    result, kind, start = found.groups()
    arrays = ARRAY.findall(result)
    if start and kind in ("all-gather", "collective-permute"):
        arrays = [array for array in arrays if array[0] != "u32" or array[1]]
        arrays = arrays[len(arrays) // 2 :]
    return sum(size_of(dtype, dimensions) for dtype, dimensions in arrays)


def size_of(dtype: str, dimensions: str) -> int:
    return int(BYTES.get(dtype, 0) * prod(int(extent) for extent in dimensions.split(",") if extent))


def group_size(line: str) -> int:
    """Devices of one replica group; 1 when it does not say. Written as lists, as `[groups,size]<=[...]`, or as axes of a mesh: `mesh['a'=4,'b'=2] {'a'}`."""
    iota = re.search(r"replica_groups=\[\d+,(\d+)\]", line)
    if iota:
        return int(iota.group(1))
    axes = re.search(r"replica_groups=@?\w*\[([^\]]*)\] \{([^}]*)\}", line)
    if axes:
        extents = dict(re.findall(r"'([^']*)'=(\d+)", axes.group(1)))
        # A part of an axis is written `'a':(2)4`: 4 of its devices, after 2.
        return prod(int(part or extents[name]) for name, part in re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", axes.group(2)))
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    return len(listed.group(1).split(",")) if listed else 1
