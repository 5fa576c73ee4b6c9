"""`xlaport lint --fix`: applies the fixes of lint findings in memory, to a fixpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from xlaport import engine, suppress
from xlaport.analysis.project import Project
from xlaport.baseline import Baseline, key_of
from xlaport.findings import Finding, Grade
from xlaport.lint import edits, unused
from xlaport.lint.check import Linter, applicability


@dataclass(frozen=True)
class Choice(engine.Selection):
    """Which fixes a run makes: those of what it would report, and that stand on their own."""

    linter: Linter
    baseline: Baseline
    project: Project
    paths: dict[str, Path]

    def allows(self, finding: Finding) -> bool:
        if finding.fix is None or applicability(finding) not in self.grades:
            return False
        path = self.paths[finding.path]
        text = self.project.sources[path].line_text(finding.location.line)
        return self.linter.reports(finding, path) and key_of(finding.path, finding.code, text) not in self.baseline


def fix(linter: Linter, project: Project, files: list[Path], unsafe: bool, baseline: Baseline) -> dict[Path, engine.FileChange]:
    """The changed files, and those that could not be. The project then holds the new texts."""
    grades = frozenset({Grade.SAFE, Grade.UNSAFE} if unsafe else {Grade.SAFE})
    named = {source.name: path for path, source in project.sources.items()}
    choice = Choice(linter.settings, grades, linter, baseline, project, named)
    changes = engine.migrate(project, choice, rules=linter.index, only=files, lint=True)
    changes = {path: without_idle_comments(change, choice) for path, change in changes.items()}
    return {path: change for path, change in changes.items() if change.refused or change.after.raw != change.before.raw}


def without_idle_comments(change: engine.FileChange, choice: Choice) -> engine.FileChange:
    """Comments are looked at last: an edit may have left one with nothing to suppress."""
    path = change.after.path
    if change.refused or not suppress.read(change.after.text).ignores:
        return change
    idle = [f for f in choice.linter.findings(choice.project, path) if f.code == unused.CODE and choice.allows(f)]
    if not idle:
        return change
    after = change.after.with_text(edits.spliced(change.after.text, idle))
    choice.project.replace(after)
    return replace(change, after=after, applied=change.applied + tuple(idle))
