"""Looks at the files of a project, one after the other or in several processes, with the same result in the same order."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from xlaport import collector, engine, files, residue, suppress
from xlaport.analysis.build import Unparsable, parse
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.diagnostics import Diagnostic, Repair
from xlaport.findings import Confidence, Finding, Grade, Severity
from xlaport.lint import edits, unused
from xlaport.ruleset import load, match
from xlaport.ruleset.schema import Rule
from xlaport.source import OtherLanguage, SourceFile, Undecodable

WORTH_PROCESSES = 1_000_000
"""Characters of Python below which starting processes takes longer than it saves."""

CHUNKS = 8
"""Pieces of work a process: many, so that none waits long for the other; of neighbouring files, which ask for the same trees."""

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""A forked process has rules and texts in memory already; where forking is not safe they are sent."""


@dataclass(frozen=True)
class Linter:
    """What does not depend on the file. `base` is the folder that patterns of the settings are relative to."""

    settings: Settings
    base: Path
    python_rules: tuple[Path, ...] = ()
    with_edits: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those of every target: which of them speak on one is `index`."""
        return rules_of(self.settings.extend_rules, self.python_rules)

    @property
    def index(self) -> match.Index:
        return index_of(self.settings.target, self.settings.extend_rules, self.python_rules)

    def reports(self, finding: Finding, path: Path) -> bool:
        """Not what merely says CUDA (the report of a migration lists it), nor what the settings leave out."""
        if finding.code == residue.KEPT_CODE or not self.settings.selects(finding.code):
            return False
        return not self.settings.ignores_in(name_below(path, self.base), finding.code)

    def findings(self, project: Project, path: Path) -> list[Finding]:
        """What is reported of one file, in source order."""
        source = project.sources[path]
        silenced = suppress.read(source.text)
        if silenced.skip_file:
            return []
        found = self.unsilenced(project, path)
        kept = [f for f in found if not silenced.silence(f.code, f.location.line, f.location.line)]
        if silenced.ignores and not any(f.code in (engine.SYNTAX_CODE, engine.CRASH_CODE) for f in found):
            kept += unused.findings(source, silenced, found, frozenset(rule.code for rule in self.rules))
        return sorted((f for f in kept if self.reports(f, path)), key=lambda f: f.sort_key)

    def unsilenced(self, project: Project, path: Path) -> list[Finding]:
        source = project.sources[path]
        if engine.is_worth_parsing(source, self.index):
            return engine.unsilenced(project, path, self.settings, self.index, lint=True)
        try:
            parse(source.text)
        except Unparsable as error:
            return [engine.unparsable(source.name, error)]
        return [engine.unparsable(source.name, part) for part in source.broken]

    def diagnostics(self, project: Project, path: Path) -> tuple[Diagnostic, ...]:
        source = project.sources[path]
        found = self.findings(project, path)
        fixed = [f for f in found if self.with_edits and f.fix and applicability(f) != Grade.REQUIRED.value]
        changes = dict(zip(fixed, edits.edits_of(source, fixed, self.settings))) if fixed else {}
        return tuple(diagnostic(source, f, changes) for f in found)


def linter_for(settings: Settings, base: Path, python_rules: tuple[Path, ...] = (), with_edits: bool = False) -> Linter:
    """Raises `UserError` for settings that name a rule there is not."""
    linter = Linter(settings, base, tuple(map(files.absolute, python_rules)), with_edits)
    ignored = [code for _, codes in settings.per_file_ignores for code in codes]
    load.refuse_unknown((*settings.select, *settings.ignore, *ignored), linter.rules)
    return linter


def diagnostic(source: SourceFile, finding: Finding, changes: dict[Finding, tuple]) -> Diagnostic:
    place = finding.location.within(source.cell_at(finding.location.line))
    fix = Repair(applicability(finding), changes.get(finding, ())) if finding.fix else None
    return Diagnostic(
        finding.code, finding.name, finding.severity.value, tuple(effect.value for effect in finding.effects), finding.confidence.value,
        finding.path, place.line, place.column, place.end_line, place.end_column, finding.message,
        None if finding in changes and not changes[finding] else fix,
        source.line_text(finding.location.line), place.cell,
    )


def undecodable(name: str, error: Undecodable) -> Diagnostic:
    """A file without text to look at: an error, or a note where it is in another language."""
    is_other = isinstance(error, OtherLanguage)
    severity, message = (Severity.NOTE, f"not looked at: {error}") if is_other else (Severity.ERROR, f"cannot be parsed: {error}")
    certain = Confidence.CERTAIN.value
    return Diagnostic(engine.SYNTAX_CODE, engine.SYNTAX_NAME, severity.value, (), certain, name, 1, 1, 1, 1, message, None, "")


def applicability(finding: Finding) -> str:
    """A fix that is part of a port's group is the port's, whatever its grade: half a port runs and does not train."""
    return Grade.REQUIRED.value if finding.fix.group else finding.grade.value


def name_below(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


@lru_cache(maxsize=4)
def rules_of(data: tuple[str, ...], with_code: tuple[Path, ...]) -> tuple[Rule, ...]:
    return load.builtin() + load.own(tuple(map(Path, data)), with_code)


@lru_cache(maxsize=4)
def index_of(target: str, data: tuple[str, ...], with_code: tuple[Path, ...]) -> match.Index:
    """On another target what torch_xla alone has is as foreign as CUDA."""
    return match.index(load.seen_on(rules_of(data, with_code), target, "torch_xla"), has_own=bool(data or with_code))


# -- many files


def check(linter: Linter, project: Project, paths: list[Path], jobs: int | None = None) -> list[Diagnostic]:
    """Diagnostics of all `paths`, in their order. `jobs` is the number of processes, one a CPU for large projects without."""
    jobs = jobs or default_jobs(project, paths)
    found = in_processes(linter, project, paths, jobs) if jobs > 1 and len(paths) > 1 else None
    return one_by_one(linter, project, paths) if found is None else found


def default_jobs(project: Project, paths: list[Path]) -> int:
    size = sum(len(project.sources[path].code) for path in paths)
    return cpus() if size > WORTH_PROCESSES else 1


def cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_by_one(linter: Linter, project: Project, paths: list[Path]) -> list[Diagnostic]:
    with collector.paused():
        return [found for path in paths for found in linter.diagnostics(project, path)]


def in_processes(linter: Linter, project: Project, paths: list[Path], jobs: int) -> list[Diagnostic] | None:
    """None when the system ended a process, most often for its memory."""
    import multiprocessing  # here, as most runs need none: 20 ms
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    _ = project.prepare(), linter.index  # made once, before the processes part
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context(START_METHOD), start_process, (linter, project)) as pool:
            return [found for part in pool.map(look, chunks(project, paths, jobs * CHUNKS)) for found in part]
    except BrokenProcessPool:
        return None


def chunks(project: Project, paths: list[Path], count: int) -> Iterator[list[Path]]:
    """Neighbouring files, about as much text in each piece."""
    limit = sum(len(project.sources[path].code) for path in paths) / count
    piece, size = [], 0
    for path in paths:
        piece.append(path)
        size += len(project.sources[path].code)
        if size >= limit:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


_mine: tuple[Linter, Project] | None = None
"""What a process of the pool works with."""


def start_process(linter: Linter, project: Project) -> None:
    global _mine
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends the pool
    _mine = linter, project


def look(paths: list[Path]) -> list[Diagnostic]:
    return one_by_one(*_mine, paths)
