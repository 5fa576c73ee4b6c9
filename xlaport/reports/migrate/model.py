"""The report of one `migrate` run: what every format shows."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from xlaport.findings import DANGER_ORDER, Finding, Grade
from xlaport.ruleset.sharding.plans import Plan


class Status(str, Enum):
    CHANGED = "changed"
    CLEAN = "clean"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file. `reason` says why it was skipped or failed."""

    name: str
    status: Status
    reason: str = ""
    before: str = ""
    after: str = ""
    applied: tuple[Finding, ...] = ()
    manual: tuple[Finding, ...] = ()
    """Findings left for a person, with lines of the file as it is after the run."""

    kept_names: tuple[Finding, ...] = ()
    """Identifiers and texts that say `cuda` and mean nothing to the runtime."""

    held: tuple[tuple[Finding, str], ...] = ()
    """Fixes that were selected but wait for the rest of their group, with the reason."""


@dataclass(frozen=True)
class ApiUse:
    """One torch API the repository calls: how XLA runs it, and where it is first used."""

    name: str
    status: str
    detail: str
    count: int
    first: str


@dataclass(frozen=True)
class Report:
    """All outcomes of a run, in path order."""

    files: tuple[FileOutcome, ...]
    target: str
    versions: str
    requirements: tuple[str, ...]
    apis: tuple[ApiUse, ...] = ()
    steps: tuple[Finding, ...] = ()
    """What happens in the steps of the port: where it waits for the device, compiles again or runs on the host."""

    plans: tuple[Plan, ...] = ()
    """What the distributed setup of each program became."""

    notes: tuple[str, ...] = ()

    def count(self, status: Status) -> int:
        return sum(1 for file in self.files if file.status is status)

    @cached_property
    def applied(self) -> list[Finding]:
        return [finding for file in self.files for finding in file.applied]

    @cached_property
    def idioms_converted(self) -> list[Finding]:
        return [finding for finding in self.applied if finding.is_idiom]

    @cached_property
    def manual(self) -> list[Finding]:
        """Most dangerous first: silently wrong before loud, then slow; then by place."""
        found = [finding for file in self.files for finding in file.manual]
        found += [finding for file in self.files for finding, _ in file.held]
        return sorted(found, key=lambda f: (DANGER_ORDER[f.danger], *f.sort_key))

    @cached_property
    def idioms_left(self) -> list[Finding]:
        return [finding for finding in self.manual if finding.is_idiom]

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
