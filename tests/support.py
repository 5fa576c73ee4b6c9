"""What the fast tests share: projects held in memory, and their findings and migrated texts."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

from xlaport import engine
from xlaport.analysis.project import Module, Project
from xlaport.config import Settings
from xlaport.engine import FileChange, Selection
from xlaport.findings import Finding, Grade
from xlaport.source import SourceFile

ROOT = Path("/project")
PLAIN = frozenset({Grade.SAFE, Grade.REQUIRED})
MAIN = "train.py"


def project(files: str | bytes | dict[str, str | bytes]) -> Project:
    """A project of these files; a single text is `train.py`."""
    if not isinstance(files, dict):
        files = {MAIN: files}
    raw = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    return Project(ROOT, {ROOT / name: SourceFile.from_bytes(ROOT / name, name, data) for name, data in raw.items()})


def module(files: str | dict[str, str], name: str = MAIN) -> Module:
    made = project(files)
    return made.module(ROOT / name)


def node_of(module: Module, expression: str) -> ast.expr:
    """The last expression of a file, in source order, that reads as `expression`."""
    found = [
        node for node in ast.walk(module.facts.tree)
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store) and ast.unparse(node) == expression
    ]
    return max(found, key=lambda node: (node.lineno, node.col_offset))


def changes(files: str | bytes | dict[str, str | bytes], grades: frozenset[Grade] = PLAIN, **settings) -> dict[str, FileChange]:
    """What `migrate` makes of a project, by file name."""
    made = engine.migrate(project(files), Selection(Settings(**settings), grades))
    return {change.before.name: change for change in made.values()}


def change(text: str | bytes, **settings) -> FileChange:
    return changes(text, **settings)[MAIN]


def migrated(text: str, **settings) -> str:
    """The text of one file after `migrate`."""
    return change(text, **settings).after.text


def findings(text: str, **settings) -> list[Finding]:
    return engine.findings_in(project(text), ROOT / MAIN, Settings(**settings))


def idioms(text: str, **settings) -> list[str]:
    """Codes of the CUDA idioms of one file, in source order."""
    return [finding.code for finding in findings(text, **settings) if finding.is_idiom]


def program(text: str) -> str:
    """A test's source without the indentation of the test."""
    return dedent(text).lstrip("\n")
