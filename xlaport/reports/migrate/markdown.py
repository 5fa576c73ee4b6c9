"""The report for a pull request: what changed and why, what is left, which APIs run where."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache

from xlaport.findings import Danger, Finding, Grade
from xlaport.reports.markdown import cell, code_span
from xlaport.reports.migrate.model import FileOutcome, Report, Status
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule
from xlaport.source import lines_of
from xlaport.targets import PROFILES

HUNKS_SHOWN = 3
"""Before/after hunks printed for each rule; the other places are listed."""

CONTEXT_REACH = 3
"""Lines an edit may lie away from its finding and still be shown as its hunk."""

GRADES = {
    Grade.SAFE: "safe: the same meaning on one device",
    Grade.REQUIRED: "required: without it the program does not run or train on XLA; numbers change as stated",
    Grade.UNSAFE: "unsafe: meaning may change",
}
DANGERS = {
    Danger.SILENT: "Silently wrong if left",
    Danger.LOUD: "Stops with an error",
    Danger.SLOW: "Slow",
    Danger.NONE: "Harmless",
}


def render(report: Report) -> str:
    """The whole report as GitHub Markdown."""
    parts = [
        head(report), *plans(report), *changed(report), *left(report), *waiting(report), *steps(report), *apis(report), *requirements(report),
        *kept_names(report), *unread(report),
    ]
    return "\n".join(parts).rstrip() + "\n"


def head(report: Report) -> str:
    lines = [
        "# Migration to TPU", "",
        f"Target: {PROFILES[report.target].title} ({report.target} {report.versions}). Made by `xlaport migrate`.", "",
        f"**{report.honest_line}.** Files: {report.files_line}.", "",
    ]
    counts = {grade: sum(1 for f in report.idioms_converted if f.grade is grade) for grade in GRADES}
    lines += [f"- {counts[grade]} {text}" for grade, text in GRADES.items() if counts[grade]]
    lines += [f"- note: {note}" for note in report.notes]
    return "\n".join([*lines, ""])


# -- the plan


def plans(report: Report) -> Iterator[str]:
    if not report.plans:
        return
    yield "## Distributed plan\n"
    for plan in report.plans:
        yield f"`{plan.place}`\n"
        yield "| what | in the source | in the port |\n|-|-|-|"
        yield "\n".join(f"| {row.what} | {source(row.source)} | {cell(row.port)} |" for row in plan.rows) + "\n"


def source(text: str) -> str:
    """Source as code in a cell, words as they are."""
    return code_span(cell(text)) if re.search(r"[.(=_]", text) else cell(text)


# -- what changed


def changed(report: Report) -> Iterator[str]:
    by_rule: dict[str, list[tuple[FileOutcome, Finding]]] = defaultdict(list)
    for file in report.files:
        for finding in file.applied:
            by_rule[finding.code].append((file, finding))
    if not by_rule:
        return
    yield "## What was changed, and why\n"
    for code in sorted(by_rule):
        yield from changed_by(code, by_rule[code])


def changed_by(code: str, found: list[tuple[FileOutcome, Finding]]) -> Iterator[str]:
    rule = rule_of(code)
    grade = found[0][1].grade
    yield f"### {code} {found[0][1].name} ({len(found)}, {grade.value})\n"
    if rule is not None:
        yield f"{sentence(rule.summary)} {reason(rule)}\n"
    shown = 0
    seen: set[tuple[str, int]] = set()
    for file, finding in found:
        hunk = hunk_of(file, finding)
        if hunk is None or (file.name, hunk[0]) in seen or shown == HUNKS_SHOWN:
            continue
        seen.add((file.name, hunk[0]))
        shown += 1
        yield f"`{place(finding)}`\n\n```diff\n{hunk[1]}\n```\n"
    places = [place(finding) for _, finding in found]
    if len(places) > shown:
        yield f"All places: {', '.join(f'`{name}`' for name in dict.fromkeys(places))}\n"


def reason(rule: Rule) -> str:
    """The first sentence of the page's section on why it matters."""
    _, _, rest = rule.page.partition("## Why it matters on a TPU\n")
    text = " ".join(rest.split("\n## ")[0].split())
    return text.split(". ")[0].rstrip(".") + "." if text else ""


def hunk_of(file: FileOutcome, finding: Finding) -> tuple[int, str] | None:
    """(first original line, diff lines) of the edit that belongs to a finding."""
    first, last = finding.location.line - 1, finding.location.end_line
    touching = [b for b in blocks(file.before, file.after) if b[0] <= last + CONTEXT_REACH and b[1] >= first - CONTEXT_REACH]
    if not touching:
        return None
    start, end, new_start, new_end = min(touching, key=lambda b: distance(b, first, finding.location.end_line))
    old = [f"-{line}" for line in bare_lines(file.before)[start:end]]
    new = [f"+{line}" for line in bare_lines(file.after)[new_start:new_end]]
    return start, "\n".join([*old, *new])


def distance(block: tuple[int, int, int, int], first: int, last: int) -> int:
    """0 for a block on the finding's first line, else how far its start is from the finding's ends."""
    if block[0] <= first < block[1]:
        return 0
    return 1 + min(abs(block[0] - first), abs(block[0] - last))


@lru_cache(maxsize=64)
def blocks(before: str, after: str) -> tuple[tuple[int, int, int, int], ...]:
    matcher = SequenceMatcher(None, bare_lines(before), bare_lines(after), autojunk=False)
    return tuple((a1, a2, b1, b2) for tag, a1, a2, b1, b2 in matcher.get_opcodes() if tag != "equal")


def bare_lines(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in lines_of(text)]


# -- what is left


def left(report: Report) -> Iterator[str]:
    held = {finding for file in report.files for finding, _ in file.held}
    manual = [finding for finding in report.manual if finding not in held]
    yield "## What is left for you\n"
    if not manual:
        yield "Nothing.\n"
        return
    for danger, title in DANGERS.items():
        found = [finding for finding in manual if finding.danger is danger]
        if found:
            yield f"### {title} ({len(found)})\n"
            yield "| where | what | rule |\n|-|-|-|"
            yield from (f"| `{place(f)}` | {cell(f.message)} | {f.code} |" for f in found)
            yield ""
    yield from advice(manual)


def advice(manual: list[Finding]) -> Iterator[str]:
    """The section *What to do* of each rule that left something."""
    yield "### What to do\n"
    for code in sorted({finding.code for finding in manual}):
        rule = rule_of(code)
        if rule is not None:
            _, _, rest = rule.page.partition("## What to do\n")
            yield f"- **{code} {rule.name}**: {' '.join(rest.split(chr(10) + '## ')[0].split())}"
    yield ""


def waiting(report: Report) -> Iterator[str]:
    held = [(finding, why) for file in report.files for finding, why in file.held]
    if not held:
        return
    yield "## Held back\n"
    yield "Edits that only make sense together; one of their group was not selected, so none was made.\n"
    yield from (f"- `{place(finding)}` {finding.code} {cell(finding.message)}: {why}" for finding, why in held)
    yield ""


# -- the torch APIs of the repository


def steps(report: Report) -> Iterator[str]:
    """Of a program that trains, what will cost it time on a TPU."""
    if not report.steps:
        return
    yield "## Where steps wait, or compile again\n"
    yield "Nothing here keeps the port from training. `xlaport lint` says the same of each line.\n"
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.steps:
        by_rule[finding.code].append(finding)
    for code, found in sorted(by_rule.items()):
        rule = rule_of(code)
        yield f"- {code} {found[0].name}, {sentence(rule.summary) if rule else ''}"
        yield f"  {', '.join(f'`{name}`' for name in dict.fromkeys(map(place, found)))}\n"


def apis(report: Report) -> Iterator[str]:
    if not report.apis:
        return
    by_status = defaultdict(list)
    for use in report.apis:
        by_status[use.status].append(use)
    yield "## How XLA runs the torch APIs used here\n"
    yield "From torch_xla's dispatcher registrations and measured runs; see `xlaport/data/`.\n"
    native = by_status.pop("native", [])
    yield "| API | status | detail | uses | first |\n|-|-|-|-|-|"
    for status in sorted(by_status, key=api_order):
        for use in by_status[status]:
            yield f"| `{use.name}` | {use.status} | {cell(use.detail)} | {use.count} | `{use.first}` |"
    yield f"\n{len(native)} more run natively: {', '.join(f'`{use.name}`' for use in native)}\n"


def api_order(status: str) -> int:
    order = ("error", "fallback", "sync", "partial", "unknown")
    return order.index(status) if status in order else len(order)


def requirements(report: Report) -> Iterator[str]:
    yield "## Requirements\n"
    yield "```\n" + "\n".join(report.requirements) + "\n```\n"
    yield "On a machine without a TPU leave `[tpu]` out, set `PJRT_DEVICE=CPU`, and take torch from PyTorch's CPU wheel index.\n"


def kept_names(report: Report) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in report.files:
        for finding in file.kept_names:
            found[finding.message].append(place(finding))
    if not found:
        return
    yield "## Names and texts that still say CUDA\n"
    yield "They work as they are and were not touched.\n"
    yield from (f"- {code_span(name)}: {', '.join(f'`{p}`' for p in dict.fromkeys(found[name]))}" for name in sorted(found))
    yield ""


def unread(report: Report) -> Iterator[str]:
    found = [file for file in report.files if file.status in (Status.FAILED, Status.SKIPPED)]
    if found:
        yield "## Files not handled\n"
        yield from (f"- `{file.name}` {file.status.value}: {cell(file.reason)}" for file in found)
        yield ""


# -- small helpers


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    return {rule.code: rule for rule in load.builtin()}


def rule_of(code: str) -> Rule | None:
    return rules().get(code)


def place(finding: Finding) -> str:
    return f"{finding.path}:{finding.location.shown}"


def sentence(text: str) -> str:
    """With a capital and a full stop; a name such as `torch.load` keeps its first letter."""
    first = text.split(" ", 1)[0]
    return (text if re.search(r"[._(]", first) else text[:1].upper() + text[1:]).rstrip(".") + "."
