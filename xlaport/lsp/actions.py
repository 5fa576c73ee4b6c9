"""What an editor may offer at a finding: its fix, all safe fixes of the file, and a comment that ignores it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from xlaport import engine, suppress
from xlaport.analysis.build import Unparsable, parse
from xlaport.analysis.project import Project
from xlaport.baseline import Baseline
from xlaport.diagnostics import TextEdit
from xlaport.findings import Finding, Grade
from xlaport.lint import edits, fixes, unused
from xlaport.lint.check import applicability
from xlaport.lsp.checking import Checked
from xlaport.source import SourceFile


NEVER_IGNORED = frozenset({engine.SYNTAX_CODE, engine.CRASH_CODE, unused.CODE})
"""What is said of the file or of a comment, which no comment silences."""


class Kind(Enum):
    SAFE = "safe"
    UNSAFE = "unsafe"
    IGNORE = "ignore"


@dataclass(frozen=True)
class Action:
    """An edit of the open file. `title` is what the editor's menu shows."""

    kind: Kind
    title: str
    finding: Finding
    edits: tuple[TextEdit, ...]


def at(checked: Checked, findings: list[Finding]) -> Iterator[Action]:
    """Actions for some findings of the file. Fixes that are part of a port have none: half a port runs and does not train."""
    alone = [finding for finding in findings if finding.fix and applicability(finding) != Grade.REQUIRED.value]
    made = dict(zip(alone, edits.edits_of(checked.source, alone, checked.linter.settings))) if alone else {}
    for finding in findings:
        if made.get(finding):
            yield fixing(finding, made[finding])
        text = ignored(checked.source, finding)
        if text is not None:
            yield Action(Kind.IGNORE, f"Ignore {finding.code} on this line", finding, tuple(edits.in_parts(checked.source, text)))


def fixing(finding: Finding, changes: tuple[TextEdit, ...]) -> Action:
    if applicability(finding) == Grade.SAFE.value:
        return Action(Kind.SAFE, f"Fix {finding.code} ({finding.name})", finding, changes)
    return Action(Kind.UNSAFE, f"Fix {finding.code} ({finding.name}): unsafe, may change what the program computes", finding, changes)


def has_safe_fix(checked: Checked) -> bool:
    return any(finding.fix and applicability(finding) == Grade.SAFE.value for finding in checked.findings)


def all_safe(checked: Checked) -> tuple[TextEdit, ...]:
    """What `lint --fix` would change in the file; nothing where it would refuse."""
    source = checked.source
    project = Project(checked.project.root, dict(checked.project.sources))
    change = fixes.fix(checked.linter, project, [source.path], False, Baseline()).get(source.path)
    if change is None or change.refused:
        return ()
    return tuple(edits.in_parts(source, change.after.text))


def ignored(source: SourceFile, finding: Finding) -> str | None:
    """The text with a comment that silences the finding; None where no comment can stand, such as inside a string."""
    number = finding.location.line
    if finding.code in NEVER_IGNORED or number > len(source.lines):
        return None
    line = source.lines[number - 1]
    body = line.rstrip("\r\n")
    old = next((ignore for ignore in suppress.read(source.text).ignores if ignore.line == number), None)
    if old is not None:
        comment = f"# xlaport: ignore[{', '.join([*old.codes, finding.code])}]"
        body = body[: old.start] + comment + body[old.end :]
    else:
        body = f"{body.rstrip()}  # xlaport: ignore[{finding.code}]"
    text = "".join([*source.lines[: number - 1], body + line[len(line.rstrip("\r\n")) :], *source.lines[number:]])
    return text if suppress.read(text).silence(finding.code, number, number) and parses(text) else None


def parses(text: str) -> bool:
    try:
        parse(text)
    except Unparsable:
        return False
    return True
