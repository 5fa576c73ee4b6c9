"""What `xlaport lint` says, in a form that can be printed, sent between processes and kept in a cache: no operations, no trees."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class TextEdit:
    """Replace what is between two places by `content`. Lines and columns count from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    content: str
    cell: int | None = None
    """Of a notebook: lines count in its cell."""


@dataclass(frozen=True)
class Repair:
    """A fix: `safe` and `unsafe` ones are made by `--fix`, `required` ones by `xlaport migrate`, with the rest of the port."""

    applicability: str
    edits: tuple[TextEdit, ...] = ()
    """Empty for `required`, and where no format asks for edits."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding at one place. `text` is its line, without indentation. In a notebook lines count in the cell of that number."""

    code: str
    name: str
    severity: str
    effects: tuple[str, ...]
    confidence: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    fix: Repair | None
    text: str
    cell: int | None = None

    @property
    def place(self) -> str:
        """`train.py:12:5`, or `train.ipynb:cell 3:12:5`."""
        return f"{self.file}:cell {self.cell}:{self.line}:{self.column}" if self.cell else f"{self.file}:{self.line}:{self.column}"

    @property
    def fails(self) -> bool:
        return self.severity != "note"


def to_json(diagnostic: Diagnostic) -> dict:
    return asdict(diagnostic)


def from_json(record: dict) -> Diagnostic:
    """The inverse of `to_json`. Raises `KeyError` or `TypeError` for anything else."""
    fix = record["fix"]
    repair = Repair(fix["applicability"], tuple(TextEdit(**edit) for edit in fix["edits"])) if fix else None
    return Diagnostic(**{**record, "effects": tuple(record["effects"]), "fix": repair})


@dataclass(frozen=True)
class LintReport:
    """One run: what was found, in order of files and lines, and how many files were looked at."""

    diagnostics: tuple[Diagnostic, ...]
    files: int
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Files that could not be looked at, with the reason."""

    @cached_property
    def severities(self) -> Counter[str]:
        return Counter(found.severity for found in self.diagnostics)

    @cached_property
    def fixable(self) -> Counter[str]:
        return Counter(found.fix.applicability for found in self.diagnostics if found.fix)

    @property
    def exit_status(self) -> int:
        if self.failures:
            return 2
        return int(any(found.fails for found in self.diagnostics))


def counts(report: LintReport) -> list[tuple[str, str, int]]:
    """(code, name, findings), the most frequent first."""
    counted = Counter((found.code, found.name) for found in report.diagnostics)
    return [(code, name, count) for (code, name), count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]


def counted(count: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
