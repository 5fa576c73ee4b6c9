"""What a rule says about a place in a file, and what would be done about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from xlaport.rewrite.ops import Op
from xlaport.source import Cell, SourceFile


class Severity(str, Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Grade(str, Enum):
    """How much an edit may change. The order is the order of the report."""

    SAFE = "safe"
    """The same meaning on one device; the condition is shown statically."""

    REQUIRED = "required"
    """Without it the program cannot run or train on XLA; numbers change in a stated way."""

    UNSAFE = "unsafe"
    """Meaning may change; applied with `--unsafe-fixes` only."""

    MANUAL = "manual"
    """Left for a person."""


class Danger(str, Enum):
    """What happens when the idiom is left as it is, most dangerous first."""

    SILENT = "silent"
    """The program runs and is wrong, or does not train, or never uses the TPU."""

    LOUD = "loud"
    """The program stops with an error."""

    SLOW = "slow"
    """The program is right and wastes time or memory."""

    NONE = "none"
    """Nothing: the idiom has no effect on a TPU."""


class Effect(str, Enum):
    """What the runtime was measured to do at such a place, step after step."""

    SYNC = "sync"
    """The host waits for the device: a value is read, or the graph is cut."""

    RECOMPILE = "recompile"
    """A new graph is compiled."""

    FALLBACK = "fallback"
    """An op runs on the host; its operands travel there and back."""

    WRONG_RESULT = "wrong-result"
    ERROR = "error"


class Confidence(str, Enum):
    CERTAIN = "certain"
    """The value analysis proved what the finding says: a tensor on the device, a number that changes."""

    LIKELY = "likely"


DANGER_ORDER = {danger: rank for rank, danger in enumerate(Danger)}


@dataclass(frozen=True)
class Fix:
    """Edits that apply together or not at all.

    `group` names a set of fixes of one program that only make sense together
    (device, end of step, seeds, ...): one withheld member withholds them all.
    """

    grade: Grade
    ops: tuple[Op, ...]
    group: str | None = None


@dataclass(frozen=True)
class Location:
    """Lines and columns count from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None
    """Number of the cell, of a finding in a notebook once it is reported: until then lines count in the text of all cells."""

    @property
    def shown(self) -> str:
        """The line for people: `12`, or `cell 3:12`."""
        return f"cell {self.cell}:{self.line}" if self.cell else str(self.line)

    def within(self, cell: Cell | None) -> Location:
        """A place in the text of all cells, as one in its cell."""
        if cell is None:
            return self
        return Location(self.line - cell.above, self.column + cell.left, self.end_line - cell.above, self.end_column + cell.left, cell.number)


@dataclass(frozen=True)
class Finding:
    """One idiom at one place of one file."""

    code: str
    name: str
    path: str
    location: Location
    message: str
    severity: Severity
    danger: Danger
    fix: Fix | None = None
    is_idiom: bool = True
    """False for what is named without being a CUDA idiom (a variable called `use_cuda`)."""

    effects: tuple[Effect, ...] = ()
    """Empty for idioms of CUDA, whose `danger` says what they do."""

    confidence: Confidence = Confidence.CERTAIN

    leaves: str = ""
    """What the port does otherwise once the fix is made, and nothing says: reported beside what is left to do."""

    @property
    def left(self) -> Finding:
        return replace(self, message=self.leaves, fix=None, leaves="", severity=Severity.WARNING, danger=Danger.SILENT)

    @property
    def grade(self) -> Grade:
        return self.fix.grade if self.fix else Grade.MANUAL

    def located(self, source: SourceFile) -> Finding:
        """The finding with lines of its cell, where the file it was made in is a notebook."""
        cell = source.cell_at(self.location.line)
        return replace(self, location=self.location.within(cell)) if cell else self

    @property
    def sort_key(self) -> tuple:
        return (self.path, self.location.cell or 0, self.location.line, self.location.column, self.code)
