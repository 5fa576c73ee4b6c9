"""A migration as one page of its own: it works from disk, asks no network, and is read with a screen reader, in the dark and on paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TextIO

from xlaport.findings import Danger, Finding, Severity
from xlaport.reports import html
from xlaport.reports.migrate.markdown import DANGERS, grades, is_source
from xlaport.reports.migrate.model import Effort, FileOutcome, Hunk, Item, Report, RuleNote
from xlaport.reports.migrate.rules import TITLES

APPLICABILITIES = {
    "safe": "safe", "required": "required", "unsafe": "unsafe", "manual": "by hand", "held": "held back",
}
"""What can be done about a place -> its word in the filter."""


def migration(report: Report, out: TextIO, others: tuple[str, ...] = ()) -> None:
    print(page(report), file=out)


def page(report: Report) -> str:
    return html.render(
        "migrate.html", script_name="filter.js", report=report,
        areas=areas(report), grades=grades(report), efforts=efforts(report), dangers=DANGERS, work=work(report), files=changed(report),
        rules=named_rules(report), severities=[severity.value for severity in Severity], applicabilities=APPLICABILITIES,
        is_source=is_source, key=key, verify=verified(report), preflight=preflights(report),
    )


def key(finding: Finding, applicability: str = "") -> str:
    """What a place is filtered by."""
    return f"{finding.code} {finding.severity.value} {applicability or finding.grade.value}"


# -- the overview


@dataclass(frozen=True)
class Area:
    """A part of a port: edits that were made, what is left by danger, and what steps wait for. Idioms of CUDA and others."""

    title: str
    edits: int
    left: dict[Danger, int]
    waits: int

    @property
    def share(self) -> int:
        """Per cent that is done of what does harm."""
        harmful = sum(count for danger, count in self.left.items() if danger is not Danger.NONE)
        return 100 * self.edits // (self.edits + harmful) if self.edits or harmful else 0 if self.waits else 100

    @property
    def state(self) -> tuple[str, str]:
        """(class, words)."""
        if self.left[Danger.SILENT] or self.left[Danger.LOUD]:
            return "bad", "to do"
        if self.left[Danger.SLOW] or self.waits:
            return "fair", "runs, not at full speed"
        return "good", "ready"


def areas(report: Report) -> list[Area]:
    """Those with findings, in the order of `rules.TITLES`; a rule the report does not know belongs to the last."""

    def of(finding: Finding) -> str:
        rule = report.rule(finding.code)
        return rule.area if rule else TITLES[-1]

    edits, waits = Counter(map(of, report.applied)), Counter(map(of, report.steps))
    left = Counter((of(item.finding), item.finding.danger) for item in report.work)
    titles = dict.fromkeys((*TITLES, *(rule.area for rule in report.rules)))
    found = (Area(title, edits[title], {danger: left[title, danger] for danger in Danger}, waits[title]) for title in titles)
    return [area for area in found if area.edits or area.waits or any(area.left.values())]


def efforts(report: Report) -> list[tuple[Effort, int]]:
    return [(effort, count) for effort in Effort if (count := sum(item.effort is effort for item in report.work))]


def work(report: Report) -> list[tuple[Danger, list[Item]]]:
    return [(danger, list(items)) for danger, items in groupby(report.work, key=lambda item: item.finding.danger)]


# -- edits: the page puts them side by side when a file is unfolded


class Part(NamedTuple):
    """Lines that stay above the first edit, or a block that was edited with the lines that stay below it, and the findings it was edited for."""

    text: str
    reasons: list[Finding]
    is_edit: bool


class Shown(NamedTuple):
    hunk: Hunk
    parts: list[Part]


class Changed(NamedTuple):
    """A file with its hunks; `elsewhere` are findings whose edit is none of them."""

    file: FileOutcome
    hunks: list[Shown]
    elsewhere: list[Finding]


def changed(report: Report) -> list[Changed]:
    return [changed_file(file) for file in report.files if file.hunks or file.applied]


def changed_file(file: FileOutcome) -> Changed:
    shown = {reason.finding for hunk in file.hunks for reason in hunk.reasons}
    elsewhere = [finding for index, finding in enumerate(file.applied) if index not in shown]
    return Changed(file, [Shown(hunk, list(parts(hunk, file.applied))) for hunk in file.hunks], elsewhere)


def parts(hunk: Hunk, applied: Sequence[Finding]) -> Iterator[Part]:
    starts = [at for at, line in enumerate(hunk.lines) if line[0] != " " and (at == 0 or hunk.lines[at - 1][0] == " ")]
    for start, end in pairwise(dict.fromkeys((0, *starts, len(hunk.lines)))):
        reasons = [applied[reason.finding] for reason in hunk.reasons if reason.at == start]
        yield Part("\n".join(hunk.lines[start:end]), reasons, start in starts)


# -- what else there is


def named_rules(report: Report) -> list[RuleNote | Finding]:
    """What every code in the report is: its page, or else the name that a finding gives it."""
    found = {finding.code: finding for finding in (*report.applied, *report.manual, *report.steps)}
    return [report.rule(code) or found[code] for code in sorted(found)]


def verified(report: Report) -> list:
    if not report.verify:
        return []
    from xlaport.reports.verify import html as verify

    return [verify.view(found.verification, found.pair) for found in report.verify]


def preflights(report: Report) -> list:
    if not report.preflight:
        return []
    from xlaport.reports.preflight import html as preflight

    return list(map(preflight.view, report.preflight))
