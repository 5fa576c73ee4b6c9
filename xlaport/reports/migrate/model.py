"""The report of one `migrate` run: what every form shows, and all that `--report FILE.json` keeps."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from xlaport.engine import Held
from xlaport.findings import DANGER_ORDER, Danger, Finding, Grade, Severity
from xlaport.ruleset.sharding.plans import Plan
from xlaport.targets import PROFILES

if TYPE_CHECKING:  # only where one is included: their modules cost a run of `migrate` 30 ms
    from xlaport.preflight.result import Document
    from xlaport.reports.verify.json import Verified


class Status(str, Enum):
    CHANGED = "changed"
    CLEAN = "clean"
    SKIPPED = "skipped"
    FAILED = "failed"


class Effort(str, Enum):
    """How much work a person has with a place: an estimate from the rule, not from the code around the place."""

    MINUTES = "minutes"
    """One place, and the rule's page says what to write; or only to be looked at."""

    HOURS = "hours"
    """The code around it has to be understood, and the change tried."""

    DAYS = "days"
    """A kernel or a library has to be replaced by something that has to be found or written."""


@dataclass(frozen=True)
class Reason:
    """A finding (`finding`: its index in `FileOutcome.applied`) is why the lines from `Hunk.lines[at]` on were edited."""

    at: int
    finding: int


@dataclass(frozen=True)
class Hunk:
    """Neighbouring edits of one file. `lines` begin with ` `, `-` or `+`, as in a unified diff.

    `line` and `new_line` are those of the first line before and after the run; they count from 1, in the cell of a notebook.
    """

    line: int
    new_line: int
    lines: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    cell: int | None = None

    def block(self, at: int) -> tuple[str, ...]:
        """The edited lines from `lines[at]` to the next line that stayed."""
        end = next((i for i in range(at, len(self.lines)) if self.lines[i][0] == " "), len(self.lines))
        return self.lines[at:end]

    def numbered(self) -> Iterator[tuple[str, int, int]]:
        """(line, its number before, its number after): of a removed line the second is that of the line that follows, of an added one the first."""
        before, after = self.line, self.new_line
        for line in self.lines:
            yield line, before, after
            before += line[0] != "+"
            after += line[0] != "-"


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file. `reason` says why it was skipped or failed."""

    name: str
    status: Status
    reason: str = ""
    hunks: tuple[Hunk, ...] = ()
    applied: tuple[Finding, ...] = ()
    """Findings whose edits were made, with lines of the file as it was before the run."""

    manual: tuple[Finding, ...] = ()
    """Findings left for a person, with lines of the file as it is after the run."""

    kept_names: tuple[Finding, ...] = ()
    """Identifiers and texts that say `cuda` and mean nothing to the runtime."""

    held: tuple[Held, ...] = ()
    """Fixes that were selected but wait for the rest of their group, with the reason."""

    def before(self, finding: Finding) -> Finding:
        """A finding with lines of the port, with those of the file as it was; where the line was edited, without columns."""
        place = finding.location
        (first, kept), (last, also_kept) = self.line_before(place.line, place.cell), self.line_before(place.end_line, place.cell)
        columns = (place.column, place.end_column) if kept and also_kept else (1, 1)
        return replace(finding, location=replace(place, line=first, column=columns[0], end_line=max(first, last), end_column=columns[1]))

    def line_before(self, line: int, cell: int | None) -> tuple[int, bool]:
        """The line that was there, and whether it is the same; of an added line, one of those it took the place of, or the one it stands before."""
        shift = 0
        for hunk in self.hunks:
            if hunk.cell != cell or line < hunk.new_line:
                continue
            first = added = 0
            for text, before, after in hunk.numbered():
                first, added = (first or before, added + 1) if text[0] == "+" else (first or before, 0) if text[0] == "-" else (0, 0)
                if after == line and text[0] != "-":
                    return (before, True) if text[0] == " " else (min(first + added - 1, max(before - 1, first)), False)
            shift += sum((text[0] == "-") - (text[0] == "+") for text in hunk.lines)
        return line + shift, True


STATUSES = ("error", "fallback", "sync", "partial", "unknown")
"""Of APIs that need a look, the worst first."""


@dataclass(frozen=True)
class ApiUse:
    """One torch API the repository calls: how the target runs it, and where it is first used."""

    name: str
    status: str
    detail: str
    count: int
    first: str

    @property
    def rank(self) -> int:
        """The worst status first."""
        return STATUSES.index(self.status) if self.status in STATUSES else len(STATUSES)


@dataclass(frozen=True)
class RuleNote:
    """What a report says of a rule that found something: kept with the report, as pages change. `area` is one of `rules.TITLES`."""

    code: str
    name: str
    summary: str
    area: str
    severity: Severity
    effort: Effort
    page: str

    @property
    def why(self) -> str:
        """The first sentence of the page's section on why it matters."""
        text = self.section("Why it matters on a TPU")
        return text.split(". ")[0].rstrip(".") + "." if text else ""

    @property
    def remedy(self) -> str:
        return self.section("What to do")

    @property
    def sentence(self) -> str:
        """The summary with a capital and a full stop; a name such as `torch.load` keeps its first letter."""
        first = self.summary.split(" ", 1)[0]
        return (self.summary if re.search(r"[._(]", first) else self.summary[:1].upper() + self.summary[1:]).rstrip(".") + "."

    def section(self, title: str) -> str:
        """The text below a heading, on one line."""
        _, _, rest = self.page.partition(f"## {title}\n")
        return " ".join(re.split(r"^(?:## |```)", rest, maxsplit=1, flags=re.MULTILINE)[0].split())


@dataclass(frozen=True)
class Item:
    """One place of the report with all that it is sorted and filtered by. `applicability` is a grade, or `held`."""

    finding: Finding
    applicability: str
    effort: Effort
    because: str = ""
    """Of what is held back: what it waits for."""


@dataclass(frozen=True)
class Report:
    """All outcomes of a run, in path order."""

    files: tuple[FileOutcome, ...]
    target: str
    versions: str
    requirements: tuple[str, ...]
    folder: str = "."
    """Where the files are that the names are of, as the working directory reaches it."""

    written: bool = True
    """False where nothing was written: then the files are as they were before the run."""

    apis: tuple[ApiUse, ...] = ()
    steps: tuple[Finding, ...] = ()
    """What happens in the steps of the port: where it waits for the device, compiles again or runs on the host."""

    plans: tuple[Plan, ...] = ()
    """What the distributed setup of each program became."""

    notes: tuple[str, ...] = ()
    rules: tuple[RuleNote, ...] = ()
    """Those that found something, by code."""

    verify: tuple[Verified, ...] = ()
    preflight: tuple[Document, ...] = ()
    """What other verbs found, where it was included."""

    def count(self, status: Status) -> int:
        return sum(1 for file in self.files if file.status is status)

    def rule(self, code: str) -> RuleNote | None:
        return self._rules.get(code)

    @cached_property
    def _rules(self) -> dict[str, RuleNote]:
        return {rule.code: rule for rule in self.rules}

    @cached_property
    def _files(self) -> dict[str, FileOutcome]:
        return {file.name: file for file in self.files}

    @property
    def title(self) -> str:
        """What its target is called."""
        return PROFILES[self.target].title if self.target in PROFILES else self.target

    @cached_property
    def unread(self) -> list[FileOutcome]:
        """Files that were not handled."""
        return [file for file in self.files if file.status in (Status.FAILED, Status.SKIPPED)]

    @cached_property
    def kept_names(self) -> list[tuple[str, list[Finding]]]:
        """What still says CUDA, each name with its places."""
        found: dict[str, list[Finding]] = defaultdict(list)
        for file in self.files:
            for finding in file.kept_names:
                found[finding.message].append(finding)
        return sorted(found.items())

    @cached_property
    def native_apis(self) -> list[ApiUse]:
        return [use for use in self.apis if use.status == "native"]

    @cached_property
    def other_apis(self) -> list[ApiUse]:
        """Those that need a look, the worst first."""
        return sorted((use for use in self.apis if use.status != "native"), key=lambda use: use.rank)

    @cached_property
    def applied(self) -> list[Finding]:
        return [finding for file in self.files for finding in file.applied]

    @cached_property
    def idioms_converted(self) -> list[Finding]:
        return [finding for finding in self.applied if finding.is_idiom]

    @cached_property
    def manual(self) -> list[Finding]:
        """Most dangerous first: silently wrong before loud, then slow; then by place."""
        return [item.finding for item in self.work]

    @cached_property
    def work(self) -> list[Item]:
        """What is left for a person, and what is held back, in the order of `manual`."""
        found = [Item(finding, finding.grade.value, self.effort(finding)) for file in self.files for finding in file.manual]
        found += [Item(held.finding, "held", Effort.MINUTES, held.because) for file in self.files for held in file.held]
        return sorted(found, key=lambda item: (DANGER_ORDER[item.finding.danger], *item.finding.sort_key))

    def effort(self, finding: Finding) -> Effort:
        """That of its rule; an edit that only waits for a person's word, and what does no harm, takes minutes."""
        if finding.grade is not Grade.MANUAL or finding.danger is Danger.NONE:
            return Effort.MINUTES
        rule = self.rule(finding.code)
        return rule.effort if rule else Effort.HOURS

    @cached_property
    def idioms_left(self) -> list[Finding]:
        return [finding for finding in self.manual if finding.is_idiom]

    def on_disk(self, finding: Finding) -> Finding:
        """A finding of the port, with lines of the file as it is on disk after the run."""
        file = self._files.get(finding.path)
        return finding if self.written or file is None else file.before(finding)

    @property
    def honest_line(self) -> str:
        """`214 CUDA idioms found, 203 converted (11 unsafe), 11 left for you`."""
        converted, left = len(self.idioms_converted), len(self.idioms_left)
        unsafe = sum(1 for finding in self.idioms_converted if finding.grade is Grade.UNSAFE)
        note = f" ({unsafe} unsafe)" if unsafe else ""
        return f"{converted + left} CUDA idioms found, {converted} converted{note}, {left} left for you"

    @property
    def files_line(self) -> str:
        return ", ".join(f"{self.count(status)} {status.value}" for status in Status)

    @property
    def skipped_line(self) -> str:
        """`2 larger than 2 MB, 1 linked out of the tree`; empty when nothing was skipped."""
        kinds = Counter(re.split("[:,]", file.reason)[0] for file in self.files if file.status is Status.SKIPPED)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


def place(finding: Finding) -> str:
    """`train.py:12`, or `train.ipynb:cell 3:2`."""
    return f"{finding.path}:{finding.location.shown}"


def fullest(names: Iterable[str], endings: tuple[str, ...]) -> str:
    """The file among those of the same report that has the first of these endings, to point to; empty without one."""
    return next((name for ending in endings for name in names if name.lower().endswith(ending)), "")
