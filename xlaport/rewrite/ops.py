"""Edit operations: what a rule asks for, with no syntax tree in it.

Spans are UTF-8 byte offsets into the text of the file without its BOM.
Templates are Python source with `{name}` placeholders; each placeholder is a hole
filled with the node found at its span *after* that node's own edits, so nested edits compose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union


@dataclass(frozen=True)
class Span:
    """Bytes `start:end`. `inner` is the unparsed expression when it lies in an f-string,
    where Python 3.11 does not give exact positions: the span is then that of the f-string."""

    start: int
    end: int
    inner: str | None = None


Holes = tuple[tuple[str, Span], ...]


@dataclass(frozen=True)
class ReplaceExpr:
    """Replace an expression by a template."""

    span: Span
    template: str
    holes: Holes = ()


@dataclass(frozen=True)
class WrapExpr:
    """Put an expression, with its own edits, into a template at `{call}`."""

    span: Span
    template: str


@dataclass(frozen=True)
class EditCall:
    """Remove arguments of a call (by keyword or position), or set keyword arguments.

    A keyword that exists keeps its place; a new one is added at the end.
    """

    span: Span
    remove_keywords: tuple[str, ...] = ()
    remove_positions: tuple[int, ...] = ()
    set_keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RemoveStatement:
    """Remove a statement; a block that would be empty gets `pass`. Comments above it stay."""

    span: Span


@dataclass(frozen=True)
class ReplaceStatement:
    """Replace one statement by the statements of a template."""

    span: Span
    template: str
    holes: Holes = ()


@dataclass(frozen=True)
class InsertStatement:
    """Insert statements next to the statement at `anchor`, or at the end of its body."""

    anchor: Span
    where: Literal["before", "after", "body_end"]
    code: str
    holes: Holes = ()


@dataclass(frozen=True)
class UnwrapBlock:
    """Put one branch of an `if` or the body of a `with` in the place of the whole statement."""

    span: Span
    branch: Literal["body", "orelse"] = "body"


@dataclass(frozen=True)
class RemoveWithItem:
    """Remove one context manager of a `with` that keeps others."""

    span: Span
    index: int


@dataclass(frozen=True)
class AddWithItem:
    """Add a context manager at the end of a `with`."""

    span: Span
    template: str


@dataclass(frozen=True)
class RemoveDecorator:
    """Remove the decorator whose expression is at `span`."""

    span: Span


@dataclass(frozen=True)
class RemoveImportedName:
    """Remove one bound name of an import statement, and the statement with its last name."""

    span: Span
    bound_name: str


@dataclass(frozen=True)
class AddPrelude:
    """Statements of the program's start: placed once, after the imports."""

    code: str


@dataclass(frozen=True)
class EnsureImport:
    """Make an import of the target profile (`xm`, `xr`, `torch_xla`, ...) available."""

    alias: str


@dataclass(frozen=True)
class ReplaceText:
    """Replace bytes by text: in a file that is not Python (requirements, YAML, shell), or in a comment."""

    span: Span
    text: str


Op = Union[
    ReplaceText,
    ReplaceExpr,
    WrapExpr,
    EditCall,
    RemoveStatement,
    ReplaceStatement,
    InsertStatement,
    UnwrapBlock,
    RemoveWithItem,
    AddWithItem,
    RemoveDecorator,
    RemoveImportedName,
    AddPrelude,
    EnsureImport,
]
