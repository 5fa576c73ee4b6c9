"""The report as GitHub Markdown, whole: what changed and why, what is left, which APIs run where. `comment` is the shorter one.

What is left for a person goes last.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from xlaport.diagnostics import counted
from xlaport.findings import Danger, Finding, Grade
from xlaport.reports.markdown import cell, code_span, details, fenced, plain, prose
from xlaport.reports.migrate.model import FileOutcome, Hunk, Item, Report, place

COMFORTABLE = 20_000
"""Characters up to which hunks are shown unfolded: a longer text is scrolled past."""

GRADES = {
    Grade.SAFE: "safe: the same meaning on one device",
    Grade.REQUIRED: "required: without it the program does not run or train on a TPU; numbers change as stated",
    Grade.UNSAFE: "unsafe: meaning may change",
}
DANGERS = {
    Danger.SILENT: "Silently wrong if left",
    Danger.LOUD: "Stops with an error",
    Danger.SLOW: "Slow",
    Danger.NONE: "Harmless",
}


@dataclass(frozen=True)
class Form:
    """How much is shown. `places`, `rows` and `lines`: how many places of a rule, rows of a table, lines of a hunk; the rest is counted."""

    hunks: int = 3
    folded: bool = True
    lists: bool = True
    places: int = 1_000_000
    rows: int = 1_000_000
    lines: int = 60


UNFOLDED, FOLDED = Form(folded=False), Form()


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    out.write(render(report))


def render(report: Report) -> str:
    """All of it; hunks are folded where they would be scrolled past."""
    text = written(report, UNFOLDED)
    return text if len(text) <= COMFORTABLE else written(report, FOLDED)


def written(report: Report, form: Form, pointer: str = "") -> str:
    """The report in a form; `pointer` says where the whole is."""
    parts = [
        head(report), *filter(None, [pointer]), *plans(report, form), *changed(report, form), *left(report, form), *waiting(report, form), *steps(report, form), *included(report, form),
        *apis(report, form), *requirements(report), *kept_names(report, form), *unread(report, form),
    ]
    return "\n".join(parts).rstrip() + "\n"


def head(report: Report) -> str:
    lines = [
        "# Migration to TPU", "",
        f"Target: {report.title} ({plain(report.target)} {plain(report.versions)}). Made by `xlaport migrate`.", "",
        f"**{report.honest_line}.** Files: {report.files_line}.", "",
    ]
    lines += [f"- {count} {text}" for text, count in grades(report)]
    lines += [f"- note: {prose(note)}" for note in report.notes]
    return "\n".join([*lines, ""])


def grades(report: Report) -> list[tuple[str, int]]:
    """What the grades of the edits mean, and how many edits have each."""
    counts = Counter(finding.grade for finding in report.idioms_converted)
    return [(text, counts[grade]) for grade, text in GRADES.items() if counts[grade]]


# -- the plan


def plans(report: Report, form: Form) -> Iterator[str]:
    if not report.plans:
        return
    yield "## Distributed plan\n"
    for plan in report.plans[: form.rows]:
        yield f"{code_span(plan.place)}\n"
        yield "| what | in the source | in the port |\n|-|-|-|"
        yield "\n".join(f"| {cell(prose(row.what))} | {source(row.source)} | {cell(prose(row.port))} |" for row in plan.rows) + "\n"
    yield f"... and {counted(len(report.plans) - form.rows, 'program')} more\n" if len(report.plans) > form.rows else ""


def source(text: str) -> str:
    """Source as code in a cell, words as they are."""
    return cell(code_span(text) if is_source(text) else prose(text))


def is_source(text: str) -> bool:
    """A row of a plan holds source where there is some, or else a few words."""
    return re.search(r"[.(=_]", text) is not None


# -- what changed


def changed(report: Report, form: Form) -> Iterator[str]:
    by_rule: dict[str, list[tuple[FileOutcome, int]]] = defaultdict(list)
    for file in report.files:
        for index, finding in enumerate(file.applied):
            by_rule[finding.code].append((file, index))
    if not by_rule:
        return
    yield "## What was changed, and why\n"
    for code in sorted(by_rule):
        yield from changed_by(report, code, by_rule[code], form)


def changed_by(report: Report, code: str, found: list[tuple[FileOutcome, int]], form: Form) -> Iterator[str]:
    rule, first = report.rule(code), found[0][0].applied[found[0][1]]
    yield f"### {plain(code)} {plain(first.name)} ({len(found)}, {first.grade.value})\n"
    if rule is not None:
        yield f"{prose(rule.sentence)} {prose(rule.why)}\n"
    shown = list(shown_hunks(found, form))
    places = [place(file.applied[index]) for file, index in found]
    listed = [f"All places: {listing(map(code_span, dict.fromkeys(places)), form.places)}\n"] if len(places) > len(shown) else []
    if form.folded and shown:
        yield details(f"{counted(len(shown), 'edit')} of {len(found)}", "\n".join([*shown, *listed]))
        return
    yield from (*shown, *listed)


def shown_hunks(found: list[tuple[FileOutcome, int]], form: Form) -> Iterator[str]:
    """The first edits of a rule, no block of lines twice."""
    seen: set[tuple[str, Hunk, int]] = set()
    for file, index in found:
        block = next(((hunk, reason.at) for hunk in file.hunks for reason in hunk.reasons if reason.finding == index), None)
        if len(seen) == form.hunks:
            return
        if block is None or (file.name, *block) in seen:
            continue
        seen.add((file.name, *block))
        lines = block[0].block(block[1])
        more = [f" ({len(lines) - form.lines} more lines)"] if len(lines) > form.lines else []
        yield f"{code_span(place(file.applied[index]))}\n\n{fenced([*lines[: form.lines], *more], 'diff')}\n"


def listing(items: Iterable[str], most: int) -> str:
    """`a, b and 3 more`."""
    found = list(items)
    more = [f"{len(found) - most} more" if most else counted(len(found), "place")] if len(found) > most else []
    return ", ".join([*found[:most], *more])


# -- what is left


def left(report: Report, form: Form) -> Iterator[str]:
    items = [item for item in report.work if item.applicability != "held"]
    yield "## What is left for you\n"
    if not items:
        yield "Nothing.\n"
        return
    for danger, title in DANGERS.items():
        found = [item for item in items if item.finding.danger is danger]
        if found:
            yield f"### {title} ({len(found)})\n"
            yield from work_table(found, form)
    if form.lists:
        yield from advice(report, items)


def work_table(found: list[Item], form: Form) -> Iterator[str]:
    if form.rows:
        yield "| where | what | rule | effort |\n|-|-|-|-|"
    for item in found[: form.rows]:
        finding = item.finding
        yield f"| {cell(code_span(place(finding)))} | {cell(prose(finding.message))} | {plain(finding.code)} | {item.effort.value} |"
    yield f"\n... and {len(found) - form.rows} more\n" if len(found) > form.rows else ""


def advice(report: Report, items: list[Item]) -> Iterator[str]:
    """The section *What to do* of each rule that left something."""
    known = [rule for code in sorted({item.finding.code for item in items}) if (rule := report.rule(code))]
    if known:
        yield "### What to do\n"
        yield from (f"- **{rule.code} {plain(rule.name)}**: {prose(rule.remedy)}" for rule in known)
        yield ""


def waiting(report: Report, form: Form) -> Iterator[str]:
    held = [item for item in report.work if item.applicability == "held"]
    if not held:
        return
    yield "## Held back\n"
    yield "Edits that only make sense together; one of their group was not selected, so none was made.\n"
    for item in held[: form.rows]:
        yield f"- {code_span(place(item.finding))} {plain(item.finding.code)} {prose(item.finding.message)}: {prose(item.because)}"
    yield f"- and {len(held) - form.rows} more\n" if len(held) > form.rows else ""


def steps(report: Report, form: Form) -> Iterator[str]:
    """Of a program that trains, what will cost it time on a TPU."""
    if not report.steps:
        return
    yield "## Where steps wait, or compile again\n"
    yield "Nothing here keeps the port from training. `xlaport lint` says the same of each line.\n"
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.steps:
        by_rule[finding.code].append(finding)
    for code, found in sorted(by_rule.items()):
        rule = report.rule(code)
        yield f"- {plain(code)} {plain(found[0].name)}, {prose(rule.sentence) if rule else ''}"
        yield f"  {listing(map(code_span, dict.fromkeys(map(place, found))), form.places)}\n"


def included(report: Report, form: Form) -> Iterator[str]:
    """What `verify` and `preflight` found, as they say it."""
    if report.verify:
        from xlaport.reports.verify import markdown as verify

        for found in report.verify:
            yield "\n".join(verify.section(found.verification, found.pair, form.lists)) + "\n"
    if report.preflight:
        from xlaport.reports.preflight import markdown as preflight

        for found in report.preflight:
            yield "\n".join(preflight.section(found)) + "\n"


# -- the torch APIs of the repository


def apis(report: Report, form: Form) -> Iterator[str]:
    if not report.apis:
        return
    native, others = report.native_apis, report.other_apis
    yield f"## How {report.title} runs the torch APIs used here\n"
    yield "From the dispatcher's registrations and measured calls; see `xlaport/data/`.\n"
    if others and form.rows:
        yield "| API | status | detail | uses | first |\n|-|-|-|-|-|"
    for use in others[: form.rows]:
        yield f"| {cell(code_span(use.name))} | {plain(use.status)} | {cell(prose(use.detail))} | {use.count} | {cell(code_span(use.first))} |"
    if len(others) > form.rows:
        yield f"\n... and {len(others) - form.rows} more"
    yield ""
    if native:
        names = ", ".join(code_span(use.name) for use in native)
        yield details(f"{len(native)} more run natively", names) if form.lists else f"{len(native)} more run natively.\n"


def requirements(report: Report) -> Iterator[str]:
    yield "## Requirements\n"
    yield fenced(report.requirements) + "\n"
    yield "On a machine without a TPU leave `[tpu]` out, set `PJRT_DEVICE=CPU`, and take torch from PyTorch's CPU wheel index.\n"


def kept_names(report: Report, form: Form) -> Iterator[str]:
    found = report.kept_names
    if not found:
        return
    yield "## Names and texts that still say CUDA\n"
    yield "They work as they are and were not touched.\n"
    names = [f"- {code_span(name)}: {listing(map(code_span, dict.fromkeys(map(place, places))), form.places)}" for name, places in found]
    yield details(counted(len(found), "name"), "\n".join(names)) if form.lists else f"{counted(len(found), 'name')}.\n"


def unread(report: Report, form: Form) -> Iterator[str]:
    found = report.unread
    if found:
        yield "## Files not handled\n"
        yield from (f"- {code_span(file.name)} {file.status.value}: {prose(file.reason)}" for file in found[: form.rows])
        yield f"- and {len(found) - form.rows} more" if len(found) > form.rows else ""
