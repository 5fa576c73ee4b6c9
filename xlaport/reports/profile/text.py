"""A profile for a terminal of 80 columns: totals, lines that wait, and why graphs were compiled again."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from xlaport.baseline import shown
from xlaport.diagnostics import counted
from xlaport.reports.terminal import wrapped, writer
from xlaport.runtime.places import Place
from xlaport.runtime.profile.model import Cause, Counts, Profile, Stack

SHOWN = 20
"""Lines and causes that are printed; the JSON has all."""

STEPS = 6
"""Steps that are named for what they compiled."""

Rules = dict[tuple[str, int], tuple[str, ...]]
"""(file, line) -> codes of the rules that speak of it."""

ENDS = {"steps": "", "ended": "the program ended by itself", "exit": "the program ended by itself", "timeout": "ended at the limit"}


def profile(found: Profile, rules: Rules, out: TextIO) -> None:
    write = writer(out)
    for sentence in summary(found):
        for line in wrapped(sentence, "  "):
            write(line, "bold")
    waiting(found, rules, write)
    compiled_again(found, rules, write)


def summary(found: Profile) -> list[str]:
    """Three sentences, without Markdown."""
    end = f"; {ENDS[found.status]}" if ENDS[found.status] else ""
    lines = [f"{shown(Path(found.script))} on {found.device}: {counted(len(found.steps), 'step')} in {found.seconds:.1f} s{end}"]
    if not found.steps:
        return [*lines, "no step ended: no optimizer step, and no torch_xla.sync()"]
    return [*lines, compilations(found), typical(found)]


def compilations(found: Profile) -> str:
    compiled, late = sum(step.compiled for step in found.steps), sum(step.compiled for step in found.late_steps)
    seconds = sum(step.compile_seconds for step in found.steps)
    when = f"{late} of them" if late else "none"
    by_step = [f"{step.number}: {step.compiled} in {step.compile_seconds:.1f} s" for step in found.steps if step.compiled]
    listed = f" (step {', '.join(by_step[:STEPS])}{', ...' if len(by_step) > STEPS else ''})" if by_step else ""
    return f"{counted(compiled, 'graph')} compiled in {seconds:.1f} s, {when} after step {found.warm_up}{listed}"


def typical(found: Profile) -> str:
    """The mean step after warm-up."""
    steps = found.late_steps

    def mean(name: str) -> float:
        return sum(getattr(step, name) for step in steps) / len(steps)

    launched, early = mean("launched"), mean("forced")
    return (
        f"after step {found.warm_up}, a step: {mean('seconds') * 1000:.1f} ms, {plural(launched, 'graph')} launched ({number(early)} early), "
        f"{plural(mean('reads'), 'read')}, {plural(mean('fallbacks'), 'op')} on the host"
    )


def number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


# -- lines


def waiting(found: Profile, rules: Rules, write) -> None:
    lines, steps = found.waiting, max(len(found.late_steps), 1)
    if not lines:
        write("no line waits for the device once the program is warm", "")
    else:
        write("", "")
        write(f"lines that wait for the device ({'ms a step, after warm-up' if found.steps else 'ms'}):", "yellow")
    for line in lines[:SHOWN]:
        write_item(f"{line.late.seconds / steps * 1000:7.1f}  ", f"{where(line.place)}: {done(line.late, steps)}", codes(line.stack, rules), write)
    more(len(lines), write)
    rest = found.warm_up_waiting
    if rest:
        write(f"{counted(len(rest), 'line')} waited only in warm-up or after the last step (listed with --json)", "dim")


def done(counts: Counts, steps: int) -> str:
    """`1 read, 1 graph launched early, aten::median on the host`, a step."""
    parts = [plural(counts.reads / steps, "read")] if counts.reads else []
    parts += [plural(counts.forced / steps, "graph") + " launched early"] if counts.forced else []
    for name, count in counts.fallbacks.items():
        times = count / steps
        parts.append((f"{number(times)} x " if times != 1 else "") + f"{name} on the host")
    return ", ".join(parts)


def plural(value: float, noun: str) -> str:
    return f"{number(value)} {noun}" + ("s" if value != 1 else "")


def where(place: Place) -> str:
    return f"{shown(Path(place.file))}:{place.line}" + (f" in {place.function}" if place.function != "<module>" else "")


def spoken(stack: Stack, rules: Rules) -> tuple[str, ...]:
    """Codes of the rules that speak of the innermost line of a stack."""
    return rules.get((stack[0].file, stack[0].line), ()) if stack else ()


def codes(stack: Stack, rules: Rules) -> str:
    found = spoken(stack, rules)
    return f" [xlaport rule {', '.join(found)}]" if found else ""


def write_item(head: str, text: str, rule: str, write) -> None:
    for line in wrapped(text + rule, " " * len(head), head):
        write(line, "")


def more(count: int, write) -> None:
    if count > SHOWN:
        write(f"  ... and {count - SHOWN} more (listed with --json)", "dim")


# -- compilations


def compiled_again(found: Profile, rules: Rules, write) -> None:
    causes = sorted(found.causes, key=lambda cause: (cause.steps[-1] <= found.warm_up, -cause.seconds))
    if not causes and found.causes_until is None:
        return
    write("", "")
    write("why graphs were compiled again:", "yellow")
    if found.causes_until is not None:
        write(f"  (the run for causes was ended at the limit, after step {found.causes_until})", "dim")
    for cause in causes[:SHOWN]:
        write_item("  ", reason(cause), codes(cause.stack, rules), write)
        write_item("      ", when(cause, found), "", write)
    more(len(causes), write)


def reason(cause: Cause) -> str:
    return f"{where(cause.stack[0])}: {cause.text}" if cause.stack else cause.text


def when(cause: Cause, found: Profile) -> str:
    """`9 graphs in 4.1 s, at steps 2-10; launched at train.py:60`."""
    launched = f"; launched at {where(cause.trigger[0])}" if cause.trigger else ""
    early = " (warm-up)" if cause.steps[-1] <= found.warm_up else ""
    return f"{counted(cause.graphs, 'graph')} in {cause.seconds:.1f} s, at {ranges(cause.steps)}{early}{launched}"


def ranges(numbers: tuple[int, ...]) -> str:
    """`step 3`, `steps 2-4, 7`."""
    runs: list[list[int]] = []
    for value in numbers:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"step {text}" if len(numbers) == 1 else f"steps {text}"
