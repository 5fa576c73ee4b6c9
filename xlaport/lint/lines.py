"""Which rules speak of a line: findings by the statement they are in."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xlaport import files
from xlaport.analysis.build import Unparsable, parse
from xlaport.analysis.project import Project
from xlaport.lint import gather
from xlaport.lint.check import Linter


@dataclass(frozen=True)
class Said:
    """(file, first line of a statement) -> (code, effects) of each finding in it; and the statements' first lines."""

    findings: dict[tuple[Path, int], list[tuple[str, frozenset[str]]]]
    starts: dict[Path, dict[int, int]]

    def of(self, file: str, line: int, effects: Iterable[str]) -> tuple[str, ...]:
        """Codes of the rules that find one of the effects in the statement a line is part of."""
        path = files.absolute(Path(file))
        start = self.starts.get(path, {}).get(line, line)
        wanted = frozenset(effects)
        return tuple(dict.fromkeys(code for code, found in self.findings.get((path, start), ()) if wanted & found))


def said(paths: list[Path]) -> Said:
    """What the rules say of these files, seen with what they import. Files that cannot be read have no findings."""
    gathered = gather.from_paths(paths)
    sources, _ = gathered.decoded()
    project = Project(gathered.root, sources)
    linter = Linter(gathered.settings, gathered.base)
    findings: dict[tuple[Path, int], list[tuple[str, frozenset[str]]]] = defaultdict(list)
    starts: dict[Path, dict[int, int]] = {}
    for path in gathered.contents:
        if path not in sources:
            continue
        try:
            starts[path] = statement_starts(parse(sources[path].text))
        except Unparsable:
            starts[path] = {}
        for found in linter.findings(project, path):
            start = starts[path].get(found.location.line, found.location.line)
            findings[path, start].append((found.code, frozenset(effect.value for effect in found.effects)))
    return Said(dict(findings), starts)


def statement_starts(tree: ast.Module) -> dict[int, int]:
    """Line -> first line of the innermost simple statement, or of the head of a compound one, it belongs to."""
    table: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            table |= {line: node.lineno for line in range(node.lineno, max(last, node.lineno) + 1)}
    return table
