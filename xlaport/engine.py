"""Runs the rules over a project: one pass for findings, or passes with edits in between until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from xlaport import collector, residue, suppress
from xlaport.analysis.build import Unparsable
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.errors import NotRewritable
from xlaport.findings import Danger, Effect, Finding, Grade, Location, Severity
from xlaport.ruleset import load, match
from xlaport.ruleset.api import Context
from xlaport.ruleset.schema import Rule
from xlaport.source import Broken, SourceFile, is_python, lines_of

if TYPE_CHECKING:
    from xlaport.ruleset.sharding.plans import Plan

MAX_PASSES = 10
"""Edits enable edits (an import becomes unused): two passes are usual, three the most seen in 56 repositories."""

RESTLESS = "its edits change it again and again; this is a bug in xlaport"
"""Why a file is refused that still changes in the last pass."""

WORTH_PARSING = tuple(
    b"torch cuda cudnn apex deepspeed xformers flash_att bitsandbytes triton pynvml cupy accelerate lightning transformers diffusers horovod nccl"
    b" nvidia tensorrt gpu .to(".split()
)
"""Looked for in lower case, one after the other: a pattern that ignores case takes ten times as long."""

SYNTAX_CODE, SYNTAX_NAME = "XP001", "syntax-error"
CRASH_CODE, CRASH_NAME = "XP002", "rule-failed"


@dataclass(frozen=True)
class Selection:
    """Which edits a run applies."""

    settings: Settings
    grades: frozenset[Grade]

    def allows(self, finding: Finding) -> bool:
        return finding.fix is not None and finding.grade in self.grades and self.settings.selects(finding.code)


@dataclass(frozen=True)
class Held:
    """A finding whose fix was not applied because its group would have been split, and by what."""

    finding: Finding
    because: str


@dataclass(frozen=True)
class FileChange:
    """One Python file or notebook after the passes. `before is after` when nothing changed."""

    before: SourceFile
    after: SourceFile
    applied: tuple[Finding, ...] = ()
    remaining: tuple[Finding, ...] = ()
    held: tuple[Held, ...] = ()
    refused: str = ""
    """Why the file could not be rewritten; empty when it could."""


COSTS = frozenset({Effect.SYNC, Effect.RECOMPILE, Effect.FALLBACK})
"""Effects of a step that is right, and slow."""


@lru_cache(maxsize=8)
def ruleset(target: str = "torch_xla", source: str = "cuda") -> match.Index:
    return match.index(load.seen_on(load.builtin(), target, source))


def findings(
    project: Project,
    paths: Iterable[Path],
    settings: Settings,
    progress: Callable[[Path], None] = lambda path: None,
    rules: match.Index | None = None,
    lint: bool = False,
) -> dict[Path, list[Finding]]:
    """`findings_in` of several files. `progress` is told of each file before it is looked at."""
    found = {}
    with collector.paused():
        for path in paths:
            progress(path)
            found[path] = findings_in(project, path, settings, rules, lint)
    return found


def findings_in(
    project: Project, path: Path, settings: Settings, rules: match.Index | None = None, lint: bool = False
) -> list[Finding]:
    """Findings of all rules (those xlaport ships, without `rules`) in one file, suppressed ones left out, in source order.

    `lint`: what happens in the steps too, which `migrate` does not ask for.

    A file that does not parse is one finding (XP001); a rule that fails is one (XP002) that names it.
    """
    silenced = suppress.read(project.sources[path].text)
    if silenced.skip_file:
        return []
    found = unsilenced(project, path, settings, rules, lint)
    return [f for f in found if not silenced.silence(f.code, f.location.line, f.location.line)]


def unsilenced(
    project: Project, path: Path, settings: Settings, rules: match.Index | None = None, lint: bool = False
) -> list[Finding]:
    """`findings_in` without regard to comments that suppress."""
    source = project.sources[path]
    if not is_worth_parsing(source, rules):
        return []
    try:
        context_for = contexts(project, path, settings)
    except Unparsable as error:
        return [unparsable(source.name, error)]
    rules, module = rules or ruleset(settings.target, settings.source), context_for(None).module
    found = list(guarded(match.matches(rules, context_for), source.name, "rules in data"))
    if lint:
        found.extend(guarded(match.matched_events(rules, context_for), source.name, "rules for events"))
    for rule in rules.checks:
        if rule.match.pattern is None or project.says(path, rule.match.pattern):
            found.extend(guarded(rule.check(context_for(rule)), source.name, rule.code))
    found.extend(unparsable(source.name, part) for part in source.broken)
    named = list(guarded(residue.findings(module, found), source.name, residue.UNKNOWN_CODE))
    found.extend(finding for finding in named if settings.selects(finding.code))
    return sorted(dict.fromkeys(found), key=lambda finding: finding.sort_key)


def contexts(project: Project, path: Path, settings: Settings) -> Callable[[Rule | None], Context]:
    """Each rule's view of one file, which the project turns to. Raises `Unparsable`."""
    module = project.turn_to(path)
    return lambda rule: Context(rule, module, project, settings.profile, settings)


def steps(project: Project, settings: Settings) -> list[Finding]:
    """What will cost the steps of a program time: where they wait for the device, compile again or run on the host."""
    with collector.paused():
        return [finding for path in sorted(project.sources) if is_python(path) for finding in steps_of(project, path, settings)]


def steps_of(project: Project, path: Path, settings: Settings) -> list[Finding]:
    source = project.sources[path]
    silenced = suppress.read(source.text)
    if silenced.skip_file or not is_worth_parsing(source):
        return []
    try:
        found = list(guarded(match.matched_events(ruleset(settings.target, settings.source), contexts(project, path, settings)), source.name, "rules for events"))
    except Unparsable:
        return []  # the run has said so
    return [f.located(source) for f in found if COSTS.intersection(f.effects) and not silenced.silence(f.code, f.location.line, f.location.line)]


def distributed_plans(project: Project, settings: Settings) -> list[Plan]:
    """What the distributed setup of each program is to become. Asked before `migrate`, which edits the sources."""
    with collector.paused():
        return [plan for path in sorted(project.sources) if is_python(path) for plan in plans_of(project, path, settings)]


def plans_of(project: Project, path: Path, settings: Settings) -> list[Plan]:
    source = project.sources[path]
    if settings.target != "torch_xla" or not is_worth_parsing(source) or suppress.read(source.text).skip_file:
        return []
    from xlaport.ruleset.sharding.plans import plans  # here, as `lint` asks for none: 5 ms

    try:
        return list(plans(contexts(project, path, settings)(None)))
    except Unparsable:
        return []  # the run will say so


def is_worth_parsing(source: SourceFile, rules: match.Index | None = None) -> bool:
    """May a rule find something? A rule of the user's own may speak of anything."""
    if rules is not None and rules.has_own:
        return True
    lower = source.code.lower()
    return any(word in lower for word in WORTH_PARSING)


def guarded(found: Iterator[Finding], name: str, who: str, passed: tuple[type[Exception], ...] = ()) -> Iterator[Finding]:
    """The findings of a rule; if it fails other than with `passed`, a finding that says so. The other rules go on."""
    try:
        yield from found
    except passed:
        raise
    except Exception as error:  # noqa: BLE001 - a rule may fail in any way, and must be named when it does
        if RAISE_RULE_ERRORS:
            raise
        message = f"rule {who} failed here ({said(error)}); this is a bug in xlaport"
        yield tool_finding(CRASH_CODE, CRASH_NAME, name, Location(1, 1, 1, 1), message)


RAISE_RULE_ERRORS = False
"""Set by the tests, which want the traceback."""


def unparsable(name: str, error: Unparsable | Broken) -> Finding:
    place = Location(error.line, error.column, error.line, error.column)
    return tool_finding(SYNTAX_CODE, SYNTAX_NAME, name, place, f"cannot be parsed: {error}")


def tool_finding(code: str, name: str, path: str, place: Location, message: str) -> Finding:
    return Finding(code, name, path, place, message, Severity.ERROR, Danger.LOUD, is_idiom=False)


def migrate(
    project: Project,
    selection: Selection,
    progress: Callable[[Path], None] = lambda path: None,
    rules: match.Index | None = None,
    only: Iterable[Path] | None = None,
    lint: bool = False,
) -> dict[Path, FileChange]:
    """Apply the selected edits to every Python file in memory (or to `only` these), to a fixpoint. Nothing is written."""
    paths = [path for path in project.sources if is_python(path)] if only is None else list(only)
    changes = {path: FileChange(project.sources[path], project.sources[path]) for path in paths}

    def look(path: Path) -> list[Finding]:
        return findings_in(project, path, selection.settings, rules, lint)

    found = findings(project, paths, selection.settings, progress, rules, lint)
    waiting = waiting_programs(found, selection, project)
    pending, settled = paths, False
    for _ in range(MAX_PASSES):
        before = {path: changes[path].after for path in pending}
        for path in pending:
            changes[path] = one_pass(project, changes[path], found[path], selection, waiting.get(path, ""), look)
        edited = [path for path in pending if changes[path].after is not before[path] and not changes[path].refused]
        if not edited and settled:
            return changes
        settled = not edited  # a last look at every changed file: an edit elsewhere may have freed an import here
        pending = edited or [path for path in paths if changes[path].applied]
        found = findings(project, pending, selection.settings, rules=rules, lint=lint)
    return changes | {path: left_alone(project, changes[path], RESTLESS, selection, waiting.get(path, ""), look) for path in edited}


def one_pass(
    project: Project, change: FileChange, found: list[Finding], selection: Selection, because: str, look: Callable[[Path], list[Finding]]
) -> FileChange:
    """A file after the edits of one pass. `because` says why those of its group wait; empty when they do not."""
    held = held_back(found, selection, because)
    chosen = [f for f in found if selection.allows(f) and not (because and f.fix.group)]
    if chosen:
        project.make_room(change.after.path)
    try:
        text, done = rewritten(change.after, chosen, selection.settings)
        after = change.after.with_text(text) if done else change.after
    except NotRewritable as error:
        return left_alone(project, change, str(error), selection, because, look)
    change = replace(change, remaining=tuple(f for f in found if f not in done), held=held)
    if not done:
        return change
    moved = moved_to_original(change.before.text, change.after.text, done)
    project.replace(after)
    return replace(change, after=after, applied=change.applied + moved)


def left_alone(
    project: Project, change: FileChange, why: str, selection: Selection, because: str, look: Callable[[Path], list[Finding]]
) -> FileChange:
    """A file that cannot be rewritten, as it was, with what is found in it then."""
    project.replace(change.before)
    found = look(change.before.path)
    return FileChange(change.before, change.before, remaining=tuple(found), held=held_back(found, selection, because), refused=why)


def held_back(found: list[Finding], selection: Selection, because: str) -> tuple[Held, ...]:
    return tuple(Held(f, because) for f in found if because and selection.allows(f) and f.fix.group)


def rewritten(source: SourceFile, chosen: list[Finding], settings: Settings) -> tuple[str, tuple[Finding, ...]]:
    """The text after the chosen fixes, and the findings whose fix was applied."""
    if not chosen:
        return source.text, ()
    from xlaport.rewrite.apply import apply

    try:
        result = apply(source.text, [finding.fix.ops for finding in chosen], settings.profile.imports)
    except NotRewritable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in one file must leave the others their port
        if is_too_deep(error):
            raise NotRewritable("nested too deeply for libcst") from None
        if RAISE_RULE_ERRORS:
            raise
        raise NotRewritable(f"the edits failed ({said(error)}); this is a bug in xlaport") from error
    if result.text == source.text:
        return source.text, ()
    return result.text, tuple(f for index, f in enumerate(chosen) if index not in result.refused)


def is_too_deep(error: BaseException | None) -> bool:
    """A stack overflow may come out as another error of a handler on its way."""
    while error is not None and not isinstance(error, RecursionError):
        error = error.__context__
    return error is not None


def said(error: BaseException) -> str:
    """One line, also of an error that cannot be printed."""
    import traceback

    return " ".join(traceback.format_exception_only(error)[-1].split())


def waiting_programs(found: dict[Path, list[Finding]], selection: Selection, project: Project) -> dict[Path, str]:
    """Files whose grouped edits must wait, in every pass, and why: another member of their program's group is not selected."""
    blocked: dict[Path, str] = {}
    for path, findings in found.items():
        for finding in findings:
            if finding.fix and finding.fix.group and not selection.allows(finding):
                blocked.setdefault(path, f"{finding.code} at {finding.path}:{finding.located(project.sources[path]).location.shown} was not selected")
    if not blocked:
        return {}
    reasons = {path: next((blocked[other] for other in project.program(path) if other in blocked), "") for path in found}
    return {path: why for path, why in reasons.items() if why}


def moved_to_original(original: str, current: str, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings of a later pass, with lines of the file as it was before the first."""
    if original == current:
        return findings
    from difflib import SequenceMatcher  # here, as only edits need it

    matcher = SequenceMatcher(None, lines_of(current), lines_of(original), autojunk=False)
    line_of: dict[int, int] = {}
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        for offset in range(a2 - a1):
            line_of[a1 + offset + 1] = (b1 + offset if tag == "equal" else min(b1 + offset, max(b2 - 1, b1))) + 1

    def moved(finding: Finding) -> Finding:
        place = finding.location
        first, last = line_of.get(place.line, place.line), line_of.get(place.end_line, place.end_line)
        return replace(finding, location=Location(first, place.column, last, place.end_column))

    return tuple(moved(finding) for finding in findings)
