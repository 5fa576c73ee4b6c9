"""XLA's account of memory in an out-of-memory message, as numbers: for a compile of `preflight`, and for a log given to `explain`.

Two texts of the TPU compiler are known. libtpu 0.0.21, which torch_xla 2.9 uses, gives a table of kinds and the largest allocations;
libtpu 0.0.52 gives a sum and the limit only. The runtime's texts say what was asked for and what was free.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {"B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

LINES = 400
"""Lines after the message that are looked at: the longest report seen had 20 allocations of 8 lines."""

AMOUNT = r"(\d+(?:\.\d+)?)([BKMGT]?)\b"
USED = re.compile(rf"Used {AMOUNT} of {AMOUNT} (\w+)")
NEEDED = re.compile(rf"memory required[^(]*\({AMOUNT}\) exceeds available (\w+) \({AMOUNT}\)")
ASKED = re.compile(rf"Attempting to (?:reserve|allocate) {AMOUNT}[^.]*\..*?There are {AMOUNT} free")
KIND = re.compile(rf"(?:^|\s)(reserved|program|arguments|output|global|scoped|HLO temp|overlays|heap allocations)\b[^\d]{{0,60}}?\s{AMOUNT}")
SIZE = re.compile(rf"\b\d+\. Size: {AMOUNT}")
OPERATOR = re.compile(r'Operator: .*?op_name="([^"]*)"')
SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
SHAPE = re.compile(r"\bShape: (\w+\[[\d,]*\])")
PADDING = re.compile(rf"Extra memory due to padding: {AMOUNT}")
TYPE = re.compile(r"Allocation type: (.+)")


@dataclass(frozen=True)
class Allocation:
    """One of the largest pieces: bytes, of which `padding` hold nothing; the operation and the line that made it, as far as they are told."""

    size: int
    shape: str = ""
    padding: int = 0
    operator: str = ""
    source: str = ""
    type: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Bytes. `needed` holds arguments too unless `without_arguments`. `space` is the memory that ran out (hbm, vmem, smem); `limit` what there is of it, or what was free with `is_free`."""

    space: str
    needed: int
    limit: int
    is_free: bool = False
    without_arguments: bool = False
    kinds: tuple[tuple[str, int], ...] = ()
    allocations: tuple[Allocation, ...] = ()


def size(number: str, unit: str) -> int:
    """Bytes of `24.00`, `G`; of a unit that is left out, bytes too."""
    return int(float(number) * UNITS[(unit or "B").upper()])


def parse(lines: list[str]) -> Breakdown | None:
    """From the line of the message and those below it; None when they hold no numbers."""
    for line in lines:
        total = total_of(line)
        if total:
            return Breakdown(*total, kinds_of(lines), tuple(allocations_of(lines)))
    return None


def total_of(line: str) -> tuple[str, int, int, bool, bool] | None:
    """The first fields of a breakdown. libtpu 0.0.21 leaves arguments out of its sum, 0.0.52 counts them."""
    used, needed, asked = USED.search(line), NEEDED.search(line), ASKED.search(line)
    if used:
        return used[5].lower(), size(used[1], used[2]), size(used[3], used[4]), False, True
    if needed:
        return needed[3].lower(), size(needed[1], needed[2]), size(needed[4], needed[5]), False, False
    if asked:
        return "hbm", size(asked[1], asked[2]), size(asked[3], asked[4]), True, False
    return None


def kinds_of(lines: list[str]) -> tuple[tuple[str, int], ...]:
    """What the sum is made of, up to the list of allocations."""
    found: dict[str, int] = {}
    for line in lines:
        if "Largest program allocations" in line:
            break
        kind = KIND.search(line)
        if kind and "Total" not in line:
            found.setdefault(kind[1], size(kind[2], kind[3]))
    return tuple(found.items())


def allocations_of(lines: list[str]) -> list[Allocation]:
    """In the order of the report, which is by size."""
    blocks: list[list[str]] = []
    for line in lines:
        if SIZE.search(line):
            blocks.append([])
        if blocks:
            blocks[-1].append(line)
    return [allocation(block) for block in blocks]


def allocation(block: list[str]) -> Allocation:
    text = "\n".join(block)
    first = SIZE.search(block[0])
    shape, padding, operator, source, kind = (pattern.search(text) for pattern in (SHAPE, PADDING, OPERATOR, SOURCE, TYPE))
    return Allocation(
        size=size(first[1], first[2]),
        shape=shape[1] if shape else "",
        padding=size(padding[1], padding[2]) if padding else 0,
        operator=operator[1] if operator else "",
        source=f"{source[1]}:{source[2]}" if source else "",
        type=kind[1].strip() if kind else "",
    )
