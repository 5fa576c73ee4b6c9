"""What a step holds in HBM, and whether that fits. Sizes are bytes of one device.

The verdict never follows the compiler's: libtpu 0.0.21 does not count arguments when it looks for room, so the sum is
compared with the limit here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xlaport import exhaustion
from xlaport.exhaustion import size

TIGHT = 0.95
"""From this part of the limit on the room that is left says little: the compiler uses what is there."""


@dataclass(frozen=True)
class Memory:
    """`total` is what the runtime reserves. `live_peak` is the compiler's largest sum of live buffers, those in VMEM among them.

    With `exceeded`, the compiler gave up: then only `total` is known, as far as it says.
    """

    limit: int
    total: int
    arguments: int = 0
    outputs: int = 0
    aliased: int = 0
    temporaries: int = 0
    code: int = 0
    live_peak: int = 0
    exceeded: bool = False

    @property
    def fits(self) -> bool:
        return not self.exceeded and self.total <= self.limit

    @property
    def is_tight(self) -> bool:
        return self.fits and self.total > TIGHT * self.limit


@dataclass(frozen=True)
class Buffer:
    """One piece of HBM that `values` results share, one after another. `where`: operations that make them, with lines of the user's."""

    size: int
    values: int
    shapes: tuple[str, ...]
    where: tuple[str, ...] = ()


def of_compiled(stats: dict[str, int], limit: int) -> Memory:
    """From the compiler's statistics: what is reserved, and the code.

    Reserved is, to some KB, the total of HBM in the compiler's memory usage report (libtpu 0.0.52, six programs). The live peak
    has up to 128 MiB more, of VMEM, and may be less where buffers leave holes.
    """
    reserved = stats["argument"] + stats["output"] - stats["alias"] + stats["temp"]
    return Memory(
        limit=limit,
        total=reserved + stats["generated_code"],
        arguments=stats["argument"],
        outputs=stats["output"] - stats["alias"],
        aliased=stats["alias"],
        temporaries=stats["temp"],
        code=stats["generated_code"],
        live_peak=stats["peak"],
    )


def of_exhausted(error: str, arguments: int, limit: int) -> Memory:
    """From what the compiler says when it gives up; `arguments` are added where its sum leaves them out, `limit` counts where it names none."""
    told = exhaustion.parse(error.splitlines())
    if told is None:
        return Memory(limit, 0, arguments, exceeded=True)
    return Memory(told.limit, told.needed + (arguments if told.without_arguments else 0), arguments, exceeded=True)


# -- the largest buffers

ROW = re.compile(r"^\s*\S+\(\s*\d+%\);\s*([\d.]+)(B|[KMGT]iB);\s*(\d+);\s*(\d+);\s*(.*)$")
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (?:\()?([a-z]\w*\[[\d,]*\]).*?op_name=\"([^\"]*)\"")
INLINED = re.compile(r"( at [^:]*:\d+)/.*")
"""What XLA puts behind the name of a call when it inlines what is called."""


def buffers(report: str, program: str, most: int = 5) -> tuple[Buffer, ...]:
    """The largest pieces of HBM in libtpu's memory usage report, with the lines that `program` (HLO text) gives for their shapes."""
    rows = parse_report(report)
    largest = sorted(rows, key=lambda row: -row.size)[:most]
    origins = origins_of({shape for row in largest for shape in row.shapes}, program)
    return tuple(Buffer(row.size, row.values, row.shapes, named(row.shapes, origins)) for row in largest)


def parse_report(report: str) -> list[Buffer]:
    """Rows of the first table, that of HBM. Those after it are of single allocations and other memories."""
    rows: list[Buffer] = []
    for line in report.splitlines():
        found = ROW.match(line)
        if found:
            rows.append(Buffer(size(found[1], found[2]), int(found[4]), shapes_of(found[5])))
        elif rows and not line.strip():
            break
    return rows


def shapes_of(listed: str) -> tuple[str, ...]:
    """`2×f32[8,4], (f32[4], u32[])` -> each array's shape once, the largest first."""
    found = dict.fromkeys(re.findall(r"[a-z]\w*\[[\d,]*\]", listed))
    return tuple(sorted(found, key=lambda shape: -elements(shape)))


def elements(shape: str) -> int:
    return prod(map(int, re.findall(r"\d+", shape.partition("[")[2])))


def origins_of(shapes: Iterable[str], program: str) -> dict[str, Counter[str]]:
    """For each shape, the operations whose results have it."""
    found: dict[str, Counter[str]] = {shape: Counter() for shape in shapes}
    for line in program.splitlines():
        made = INSTRUCTION.match(line)
        if made and made.group(1) in found:
            found[made.group(1)][INLINED.sub(r"\1", made.group(2))] += 1
    return found


def named(shapes: tuple[str, ...], origins: dict[str, Counter[str]], most: int = 2) -> tuple[str, ...]:
    """The commonest operations for the largest of some shapes, those with a line first."""
    for shape in shapes:
        known = sorted(origins[shape].items(), key=lambda item: (" at " not in item[0], -item[1]))
        if known:
            return tuple(name for name, _ in known[:most])
    return ()


def from_text(error: str, most: int = 5) -> tuple[Buffer, ...]:
    """The largest allocations in the out-of-memory text itself, where libtpu 0.0.21 writes them."""
    told = exhaustion.parse(error.splitlines())
    found = told.allocations[:most] if told else ()
    return tuple(Buffer(one.size, 1, (one.shape,), (one.operator,) if one.operator else ()) for one in found)
