"""Answers of `xlaport preflight` for a terminal of 80 columns: a few lines a slice, or a table of several."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import TextIO

from xlaport.errors import one_line
from xlaport.preflight.hlo import Collective
from xlaport.preflight.memory import Buffer, Memory
from xlaport.preflight.result import Document, Result, Verdict
from xlaport.preflight.step import Site
from xlaport.preflight.topology import GIB
from xlaport.reports.terminal import wrapped

INDENT = "  "
BAR = 60
WORDS = {
    Verdict.FITS: "FITS", Verdict.DOES_NOT_FIT: "DOES NOT FIT", Verdict.UNSUPPORTED: "UNSUPPORTED", Verdict.UNKNOWN: "NO ANSWER",
}
KINDS = {
    "parameter": ("parameters", "P"), "optimizer": ("optimizer", "O"), "gradient": ("gradients", "G"), "batch": ("batch", "B"), "buffer": ("buffers", "U"),
    "state": ("other state", "S"), "padding": ("padding", "p"), "temporaries": ("activations", "A"), "outputs": ("outputs", "R"), "code": ("code", "C"),
}
"""Kind of memory -> its word, and its letter in the bar."""

SITES = {
    "unlowered": "run on the host, not on the TPU",
    "reads": "wait for a value of the device",
    "dynamic": "have a shape that depends on data",
}


READERS = {"aten::_local_scalar_dense": ".item(), float(), if", "aten::_to_copy": ".cpu(), .tolist(), .numpy()", "aten::copy_": "copy_ to the host"}
"""Operators that read -> what they are in a program."""


def preflight(document: Document, out: TextIO) -> None:
    """One answer in full; of several a table before it; what would help after it."""
    lines = []
    if len(document.results) > 1:
        lines += [*ladder(document.results), ""]
    lines += full(document.shown) + cost(document)
    if document.attempts:
        lines += ["", *attempts(document)]
    print("\n".join(lines), file=out)


def full(result: Result) -> list[str]:
    lines = [headline(result)]
    if result.reason:
        lines += indented(one_line(result.reason))
    if result.memory and not result.memory.exceeded:
        lines += [INDENT + bar(result), *indented(breakdown(result))]
    if result.time:
        lines += indented(times(result))
    if result.collectives:
        lines += indented("collectives: " + ", ".join(map(collective, result.collectives)))
    lines += sites(result.sites)
    if result.buffers and result.memory and (result.memory.exceeded or result.memory.total > result.memory.limit / 2):
        lines += buffers(result.buffers)
    for note in result.notes:
        lines += indented(f"({one_line(note)})")
    return lines + indented(provenance(result))


def headline(result: Result) -> str:
    said = f"{result.topology}  {WORDS[result.verdict]}"
    held = result.memory
    if held and held.total:
        per = "chip" if result.topology.generation.devices_per_chip == 1 else "core, two a chip"
        said += f"  {gib(held.total)} of {gib(held.limit)} GiB a {per}"
    return said


def gib(size: float) -> str:
    """Two decimals, and three significant digits below one."""
    value = size / GIB
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3g}"


def parts(result: Result) -> dict[str, int]:
    """Bytes by kind, which sum up to the total: arguments, what the compiler pads them by, temporaries, outputs, code."""
    held = result.memory
    found = {kind: size for kind, size in result.kinds.items() if kind in KINDS}
    found["padding"] = max(0, held.arguments - sum(result.kinds.values()))
    found["outputs"] = held.outputs
    found["code"] = held.code
    found["temporaries"] = max(0, held.total - sum(found.values()))
    return {kind: found[kind] for kind in KINDS if found.get(kind)}


def bar(result: Result) -> str:
    """HBM by kind: a letter for each sixtieth of the limit, dots for what is free."""
    limit = result.memory.limit
    drawn, sofar = "", 0
    for kind, size in parts(result).items():
        sofar += size
        drawn += KINDS[kind][1] * max(0, min(BAR, round(sofar / limit * BAR)) - len(drawn))
    return f"[{drawn.ljust(BAR, '.')}]" + (" over" if sofar > limit else "")


def breakdown(result: Result) -> str:
    shown = [(KINDS[kind], size) for kind, size in parts(result).items() if size >= result.memory.total / 200]
    return "GiB: " + ", ".join(f"{word} {gib(size)} ({letter})" for (word, letter), size in shown)


def times(result: Result) -> str:
    time = result.time
    said = f"step >= {milliseconds(time.lower_bound)} ({bound(result)})"
    if time.estimate is not None:
        said += f", {milliseconds(time.estimate)} by the compiler's cost model"
        said += f" with {milliseconds(time.collectives)} of collectives, estimated" if time.collectives else ""
        said += "; not measured on a TPU"
        said += f". {time.peak_fraction:.0%} of peak" if time.peak_fraction is not None else ""
    return f"{said}. {quantity(time.flops)} FLOPs a device"


def bound(result: Result) -> str:
    return "FLOPs at peak" if result.time.bound_by == "FLOPs" else "weights and state through HBM once"


def milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def quantity(value: float) -> str:
    for power, letter in ((15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if value >= 10**power:
            return f"{value / 10**power:.3g} {letter}"
    return f"{value:.0f}"


def collective(found: Collective) -> str:
    return f"{found.count} {found.kind} {quantity(found.bytes)}B"


def sites(found: Iterable[Site]) -> list[str]:
    lines = []
    for kind, meaning in SITES.items():
        places = [site for site in found if site.kind == kind]
        if places:
            lines += indented(f"{len(places)} operation{'s' * (len(places) > 1)} {meaning if len(places) > 1 else singular(meaning)}:")
            lines += [line for site in places for line in indented(f"{operator(site)} {place(site.line)}", 2)]
    return lines


def operator(site: Site) -> str:
    meant = READERS.get(site.operator) if site.kind == "reads" else None
    return f"{site.operator} ({meant})" if meant else site.operator


def singular(meaning: str) -> str:
    verb, _, rest = meaning.partition(" ")
    return f"{'has' if verb == 'have' else verb + 's'} {rest}"


def place(line: str) -> str:
    """`file:line`, the file as it is reached from here."""
    if not line:
        return "(its line is not known)"
    file, colon, rest = line.partition(":")
    return one_line(relative(file) + colon + rest)


def relative(file: str) -> str:
    try:
        near = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return near if not near.startswith(os.pardir) else (file if len(file) < 50 else "…/" + "/".join(Path(file).parts[-3:]))


def buffers(found: Iterable[Buffer]) -> list[str]:
    lines = indented("largest buffers:")
    for buffer in found:
        shapes = ", ".join(buffer.shapes[:2]) + (", ..." if len(buffer.shapes) > 2 else "")
        lines += indented(f"{gib(buffer.size)} GiB  {shapes}  {where(buffer)}".rstrip(), 2)
    return lines


def where(buffer: Buffer) -> str:
    """The operation that makes it, and its line; what only says that it is an argument is left out."""
    names = [name for name in buffer.where if not name.startswith("xla::device_data")]
    if not names:
        return ""
    operator, at, line = names[0].partition(" at ")
    return f"{operator} {place(line)}" if at else operator


def provenance(result: Result) -> str:
    effort, versions = result.effort, result.versions
    if not versions.libtpu:
        return ""
    compiled = "answer of an earlier run" if effort.cached else f"compiled in {effort.compile_seconds:.0f} s, {effort.compile_rss / 1e9:.1f} GB"
    traced_by = f"torchax {versions.torchax}" if not versions.torch_xla else f"torch_xla {versions.torch_xla}"
    return f"libtpu {versions.libtpu}, {traced_by}; traced in {effort.trace_seconds:.0f} s, {effort.trace_rss / 1e9:.1f} GB; {compiled}"


def indented(said: str, depth: int = 1) -> list[str]:
    return wrapped(said, INDENT * (depth + 1), INDENT * depth)


# -- several slices


def ladder(results: Iterable[Result]) -> list[str]:
    """A row a slice: what it holds, and what the step up buys."""
    lines = [f"{'slice':<15} {'verdict':<13} {'GiB a device':>16} {'step >=':>9} {'cost model':>11} {'of peak':>8}"]
    lines += [row(str(result.topology), result) for result in results]
    best = next((result for result in results if result.verdict is Verdict.FITS), None)
    lines.append(f"the smallest slice that fits: {best.topology}" if best else "it fits on none of them")
    return lines


def row(name: str, result: Result) -> str:
    held, time = result.memory, result.time
    memory = f"{held_of(held)} of {gib(held.limit)}" if held and held.total else "-"
    peak = f"{time.peak_fraction:.0%}" if time and time.peak_fraction is not None else "-"
    return f"{name:<15} {WORDS[result.verdict]:<13} {memory:>16} {least(result) or '-':>9} {modelled(result) or '-':>11} {peak:>8}"


def held_of(held: Memory) -> str:
    return ("> " if held.exceeded else "") + gib(held.total)


def least(result: Result) -> str:
    """The lower bound of the step; empty where there is none."""
    return milliseconds(result.time.lower_bound) if result.time else ""


def modelled(result: Result) -> str:
    """The cost model's time of the step; empty where there is none."""
    return milliseconds(result.time.estimate) if result.time and result.time.estimate is not None else ""


# -- what would help, and what it costs


def attempts(document: Document) -> list[str]:
    """A row an attempt, compiled like the first."""
    wide = 34
    lines = [f"{'tried by compiling':<{wide}} {'verdict':<12} {'GiB':>6} {'step >=':>9} {'cost model':>11}"]
    rows = [("as written", document.shown), *((attempt.what, attempt.result) for attempt in document.attempts)]
    for what, result in rows:
        first, *rest = wrap(what, wide) or [""]
        size = held_of(result.memory) if result.memory and result.memory.total else "-"
        lines.append(f"{first:<{wide}} {WORDS[result.verdict]:<12} {size:>6} {least(result) or '-':>9} {modelled(result) or '-':>11}")
        lines += [INDENT + line for line in rest]
        if result.reason:
            lines += indented(one_line(result.reason), 2)
    return lines


def cost(document: Document) -> list[str]:
    prices, result = document.prices, document.shown
    step = prices.of_step(result)
    if step is None:
        return []
    said = f"USD {step:.3g} a step at USD {prices.per_chip_hour[result.topology.generation.name]:g} a chip and hour, your price, by the cost model's time"
    return indented(said + (f"; USD {step * prices.steps:,.0f} for {prices.steps:,} steps" if prices.steps else ""))
