"""Files that are not Python: requirements, pyproject, conda, launch scripts, YAML and JSON settings."""

from __future__ import annotations

from pathlib import Path

from xlaport.engine import FileChange, Selection
from xlaport.source import SourceFile


def is_project_file(path: Path) -> bool:
    return False


def migrate(source: SourceFile, selection: Selection) -> FileChange:
    return FileChange(source, source)
