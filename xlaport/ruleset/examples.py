"""Runs the examples of a rule's page: what it must find, what it must leave, and what its edits make of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from enum import Enum
from pathlib import Path

from xlaport import engine, projectfiles
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.findings import Finding, Grade
from xlaport.ruleset import load, match
from xlaport.ruleset.schema import Rule
from xlaport.source import SourceFile, lines_of

MARKER = re.compile(r"[ \t]*# finds: (?P<codes>[\w, ]+?)[ \t]*$", re.MULTILINE)
EDITS = frozenset(Grade) - {Grade.MANUAL}
ROOT = Path("example")
DEFAULT_TARGET = Settings().target
FILE_NAMES = {"python": "main.py", "requirements": "requirements.txt"}
"""The file a block stands for when it does not say, by its language."""


class Outcome(str, Enum):
    """What an example shows about its rule (the names are ast-grep's)."""

    VALIDATED = "validated"

    MISSING = "missing"
    """A marked line without a finding, or a page without examples."""

    NOISY = "noisy"
    """A finding on a line that is not marked."""

    WRONG = "wrong"
    """The edits do not give the `after` block."""

    UNSTABLE = "unstable"
    """A second run changes something, or the first never ends."""


@dataclass(frozen=True)
class Problem:
    """One thing an example gets wrong, with the line of the page."""

    outcome: Outcome
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.outcome.name}: {self.message}"


@dataclass(frozen=True)
class Block:
    """A fenced block: `kind` is before, after or ok; `line` is that of its first line of code."""

    language: str
    kind: str
    options: dict[str, str]
    code: str
    line: int

    @property
    def file(self) -> str:
        return self.options.get("file") or FILE_NAMES.get(self.language, self.language)

    @property
    def target(self) -> str:
        return self.options.get("target", DEFAULT_TARGET)

    @property
    def is_python(self) -> bool:
        return self.file.endswith(".py")

    @property
    def text(self) -> str:
        return MARKER.sub("", self.code)

    def marked(self, code: str) -> set[int]:
        """Lines (from 1) on which a finding of the rule is expected."""
        found = set()
        for marker in MARKER.finditer(self.code):
            if code in re.split(r"[, ]+", marker["codes"]):
                found.add(self.code.count("\n", 0, marker.start()) + 1)
        return found


@dataclass(frozen=True)
class Example:
    """One project: a block or several with `file=`, and what they become."""

    given: list[Block] = field(default_factory=list)
    expected: list[Block] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str | bool]:
        """The settings an info string may change: `distributed=mp`, `spelling=2.x`, `library=fsdp`."""
        options = self.given[0].options
        return {name: value for name, value in options.items() if name in {"distributed", "spelling"}} | {"runtime_library": "library" in options}

    @property
    def targets(self) -> list[str]:
        """What it is run for: the target its first block names, else the default and those of its `after` blocks."""
        own = self.given[0].options.get("target")
        return [own] if own else list(dict.fromkeys([DEFAULT_TARGET, *(block.target for block in self.expected)]))

    def expected_on(self, target: str) -> list[Block]:
        return [block for block in self.expected if block.target == target]

    def takes(self, block: Block) -> bool:
        """Does a block continue this example, rather than start the next?"""
        if block.kind == "after":
            return self.given[0].kind == "before" and all((block.file, block.target) != (other.file, other.target) for other in self.expected)
        together = "file" in block.options and block.kind == self.given[0].kind and not self.expected
        return together and all(block.file != other.file for other in self.given)


def check_page(path: Path) -> list[Problem]:
    """Problems of every example of one page; empty when all are validated. Raises `BadRule`."""
    rule = load.load(path)
    blocks = list(blocks_of(path))
    if not any(block.kind == "before" for block in blocks):
        return [Problem(Outcome.MISSING, path, 1, "the page has no `before` block")]
    if blocks[0].kind == "after":
        return [Problem(Outcome.WRONG, path, blocks[0].line, "an `after` block without a `before`")]
    return [problem for example in examples(blocks) for target in example.targets for problem in check_on(rule, example, target)]


def check_on(rule: Rule, example: Example, target: str) -> Iterator[Problem]:
    """Problems of an example on one target; a rule that only another one has is not asked."""
    seen = load.seen_on((rule,), target, rule.source)
    if seen:
        yield from check(seen[0], example, target)
    elif example.given[0].options.get("target") == target or example.expected_on(target) and target != DEFAULT_TARGET:
        yield Problem(Outcome.MISSING, rule.path, example.given[0].line, f"the rule says nothing on {target}")


def blocks_of(path: Path) -> Iterator[Block]:
    for fence in load.fences(path):
        language, *words = fence.info.split() or [""]
        if not words or words[0] not in {"before", "after", "ok"}:
            continue
        options = dict(word.partition("=")[::2] for word in words[1:])
        yield Block(language, words[0], options, fence.text, fence.line)


def examples(blocks: list[Block]) -> list[Example]:
    found: list[Example] = []
    for block in blocks:
        if not found or not found[-1].takes(block):
            found.append(Example())
        (found[-1].expected if block.kind == "after" else found[-1].given).append(block)
    return found


def check(rule: Rule, example: Example, target: str) -> Iterator[Problem]:
    """Runs only this rule, with edits of every grade; groups of edits do not matter to a single rule."""
    has_own = load.rules_folder() not in rule.path.parents
    settings = Settings(select=(rule.code,), target=target, source=rule.source, **example.settings)
    run = Run(match.index((rule,), has_own), engine.Selection(settings, EDITS))
    sources = {ROOT / block.file: source_of(block.file, block.text) for block in example.given}
    project = Project(ROOT, dict(sources))
    for block in example.given:
        yield from misplaced(rule, block, run.findings_in(project, block))
    yield from rewrites(rule, example, example.expected_on(target), project, run)


@dataclass(frozen=True)
class Run:
    """Only the rule under test, on Python files and on the other files of a project."""

    rules: match.Index
    selection: engine.Selection

    def findings_in(self, project: Project, block: Block) -> list[Finding]:
        path = ROOT / block.file
        if block.is_python:
            return engine.findings_in(project, path, self.selection.settings, self.rules, lint=True)
        return projectfiles.findings_in(project.sources[path], self.selection)

    def migrate(self, project: Project) -> dict[Path, engine.FileChange]:
        changes = engine.migrate(project, self.selection, rules=self.rules, lint=True)
        others = [path for path in project.sources if path not in changes]
        return changes | {path: projectfiles.migrate(project.sources[path], self.selection) for path in others}


def source_of(name: str, text: str) -> SourceFile:
    return SourceFile.from_bytes(ROOT / name, name, text.encode())


def misplaced(rule: Rule, block: Block, findings: list[Finding]) -> Iterator[Problem]:
    expected = block.marked(rule.code)
    found = {finding.location.line: finding for finding in findings if finding.code == rule.code}
    lines = lines_of(block.text)
    for line in sorted(expected - found.keys()):
        yield Problem(Outcome.MISSING, rule.path, block.line + line - 1, f"nothing found in `{lines[line - 1].strip()}`")
    for line in sorted(found.keys() - expected):
        yield Problem(Outcome.NOISY, rule.path, block.line + line - 1, f"unexpected: {found[line].message}")
    for finding in findings:
        if finding.code in {engine.SYNTAX_CODE, engine.CRASH_CODE}:
            yield Problem(Outcome.WRONG, rule.path, block.line + finding.location.line - 1, finding.message)


def rewrites(rule: Rule, example: Example, expected: list[Block], project: Project, run: Run) -> Iterator[Problem]:
    """A block without an `after` must stay as it is."""
    wanted = {block.file: block for block in example.given} | {block.file: block for block in expected}
    changes = run.migrate(project)
    for file, block in wanted.items():
        change = changes.get(ROOT / file)
        text = change.after.text if change else ""
        if change and change.refused:
            yield Problem(Outcome.UNSTABLE if change.refused == engine.RESTLESS else Outcome.WRONG, rule.path, block.line, change.refused)
            continue
        if text != block.text:
            yield Problem(Outcome.WRONG, rule.path, block.line, "the edits give\n" + difference(block.text, text))
        if block.is_python:
            yield from unparsable(rule, block)
    again = run.migrate(Project(ROOT, {path: change.after for path, change in changes.items()}))
    for path, change in again.items():
        if change.after.raw != change.before.raw:
            shown = difference(change.before.text, change.after.text)
            yield Problem(Outcome.UNSTABLE, rule.path, wanted[path.relative_to(ROOT).as_posix()].line, "a second run changes\n" + shown)


def unparsable(rule: Rule, block: Block) -> Iterator[Problem]:
    try:
        ast.parse(block.text)
    except SyntaxError as error:
        yield Problem(Outcome.WRONG, rule.path, block.line + (error.lineno or 1) - 1, f"not Python: {error.msg}")


def difference(expected: str, actual: str) -> str:
    lines = unified_diff(expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="")
    return "\n".join(lines)
