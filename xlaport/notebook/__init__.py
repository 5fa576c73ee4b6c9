"""Notebooks as Python files: the code cells are one text for the analysis, and an edited text is put back into the cells.

In the text a string that is a statement stands before each cell (`"xlaport-cell 3"`), so that borders survive edits, and a line that is
no Python stands in a comment (`magics`). A cell that does not parse is opaque and a finding; the others are looked at.
Cells are taken in the order they stand in, which is the order "run all" runs them in.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property

from xlaport.errors import NotRewritable
from xlaport.notebook import document, magics
from xlaport.notebook.document import CodeCell
from xlaport.source import BOM, Broken, Cell, SourceFile, Undecodable, lines_of

WORD = "xlaport"
"""What the borders of cells and the lines that are no Python begin with, where no cell says it."""

SHELL_CELL = re.compile(r"%%(?:bash|sh|shell|system|sx|!|script[ \t]+(?:ba|z)?sh)\b")
COMMAND = re.compile(r"[ \t]*(?:[^\n=!%]*=[ \t]*)?(?:!{1,2}|%(?:sx|system|env|set_env)[ \t]+|%(?=(?:pip|conda|mamba)\b)|(?=(?:pip3?|conda|mamba)[ \t]))[ \t]*")
"""A line whose rest is for a shell, or reads like it: `%env NAME=value`."""

HOSTS = {"Colab": re.compile(r"\bgoogle\.colab\b"), "Kaggle": re.compile(r"/kaggle/(?:input|working)\b|\bkaggle_secrets\b")}


def code(raw: bytes) -> bytes:
    """The Python in a notebook, for a look at its imports: the cells as they stand, unparsed. Empty where none can be read."""
    try:
        cells = document.read(decoded(raw)).cells
    except Undecodable:
        return b""
    return "\n".join(magics.as_python(cell.source, WORD) for cell in cells).encode("utf-8", "replace")


@dataclass(frozen=True)
class Shell:
    """Characters `start:end` of a notebook as shown that a shell gets; `in_block`: of a line with statements of Python around it."""

    start: int
    end: int
    in_block: bool


@dataclass(frozen=True)
class Joined:
    """The code cells as one text. `starts`: lines of the text above each cell, its border included. `word`: what no cell says.

    `indents`: the blanks that IPython takes away from the lines of each cell.
    """

    text: str
    cells: tuple[CodeCell, ...]
    starts: tuple[int, ...]
    indents: tuple[str, ...]
    word: str
    newline: str
    broken: tuple[Broken, ...]
    host: str
    wants_gpu: bool


@dataclass(frozen=True)
class Notebook(SourceFile):
    """A notebook whose `text` is its code cells, joined."""

    @cached_property
    def joined(self) -> Joined:
        return join(document.read(decoded(self.raw)))

    @property
    def text(self) -> str:
        return self.joined.text

    @property
    def code(self) -> bytes:
        return self.text.encode("utf-8")

    @property
    def broken(self) -> tuple[Broken, ...]:
        return self.joined.broken

    @cached_property
    def shown(self) -> str:
        return magics.restored(self.joined.text, self.joined.word, printable=True)

    @property
    def host(self) -> str:
        """`Colab` or `Kaggle`, where the notebook says so; else empty."""
        return self.joined.host

    @property
    def wants_gpu(self) -> bool:
        """Its metadata ask the host for a GPU."""
        return self.joined.wants_gpu

    @property
    def as_written(self) -> CellsAsWritten:
        return CellsAsWritten(self.path, self.name, self.raw, self.encoding, self.has_bom)

    @cached_property
    def shown_lines(self) -> list[str]:
        return lines_of(self.shown)

    def cell_at(self, line: int) -> Cell | None:
        found = self.joined
        index = max(bisect_right(found.starts, line - 1) - 1, 0)
        return Cell(found.cells[index].number, found.starts[index], len(found.indents[index])) if found.starts else None

    def divided(self, text: str) -> tuple[tuple[int, str], ...]:
        """The cells, as they are written in the notebook. Raises `NotRewritable` if their borders are not all there."""
        found = self.joined
        parts = re.split(rf'^"{found.word}-cell (\d+)"\r?\n', text, flags=re.MULTILINE)
        if parts[0] or [int(number) for number in parts[1::2]] != [cell.number for cell in found.cells]:
            raise NotRewritable("the edits lost the border of a cell; this is a bug in xlaport")
        sources = (magics.restored(part.removesuffix(found.newline), found.word) for part in parts[2::2])
        return tuple((cell.number, outdented(cell, source, indent)) for cell, source, indent in zip(found.cells, sources, found.indents))

    def with_text(self, text: str) -> Notebook:
        """Puts an edited text back into the cells. Raises `NotRewritable`."""
        new = dict(self.divided(text))
        changed = {cell.number: within(cell.source, new[cell.number]) for cell in self.joined.cells if new[cell.number] != cell.source}
        if not changed:
            return self
        body = document.read(decoded(self.raw)).with_sources(changed).encode("utf-8")
        return replace(self, raw=(BOM if self.has_bom else b"") + body)

    @property
    def documents(self) -> tuple[tuple[str, bytes], ...]:
        """Sources of cells, with a final newline, which a source need not have."""
        cells = ((number, source + "\n" if source and not source.endswith("\n") else source) for number, source in self.divided(self.joined.text))
        return tuple((f":cell {number}", source.encode("utf-8", "surrogatepass")) for number, source in cells)

    def release(self) -> None:
        super().release()
        for name in ("shown", "shown_lines"):
            self.__dict__.pop(name, None)


@dataclass(frozen=True)
class CellsAsWritten(Notebook):
    """A notebook whose `text` has the lines that are no Python too: for what is edited as text."""

    @property
    def text(self) -> str:
        return self.shown

    @cached_property
    def shell(self) -> tuple[Shell, ...]:
        """What the cells give to a shell: `!command`, `%pip`, `%%bash`."""
        found: list[Shell] = []
        offset, shown, lines = 0, self.shown_lines, lines_of(self.joined.text)
        is_body = goes_on = False
        for line, python in zip(shown, lines):
            start, offset = offset, offset + len(line)
            end = start + len(line.rstrip("\r\n"))
            if f"# {self.joined.word}-" not in python or python == line:
                is_body = goes_on = False
                continue
            command = COMMAND.match(line)
            if SHELL_CELL.match(line):
                is_body, goes_on = True, False
                found.append(Shell(offset, offset, False))
            elif is_body or goes_on:
                found[-1] = replace(found[-1], end=end)
            elif command:
                found.append(Shell(start + command.end(), end, line[:1] in " \t"))
                goes_on = True
            goes_on = goes_on and line.rstrip("\r\n").endswith("\\")
        return tuple(found)


def join(read: document.Document) -> Joined:
    """The code cells of a notebook."""
    sources = "\n".join(cell.source for cell in read.cells)
    word, newline = WORD, "\r\n" if "\r\n" in sources else "\n"
    while f"{word}-" in sources:
        word += "_"
    pieces, starts, indents, broken, lines = [], [], [], [], 0
    for cell in read.cells:
        lines += 1
        python, indent, why = parsed(cell.source, word)
        broken += [replace(why, line=lines + why.line)] if why else []
        starts.append(lines)
        indents.append(indent)
        pieces.append(f'"{word}-cell {cell.number}"{newline}{python}{newline}')
        lines += len(lines_of(python + newline))
    host = next((name for name, pattern in HOSTS.items() if name.lower() in read.metadata or pattern.search(sources)), "")
    return Joined("".join(pieces), read.cells, tuple(starts), tuple(indents), word, newline, tuple(broken), host, wants_gpu(read.metadata))


def decoded(raw: bytes) -> str:
    try:
        return raw.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Undecodable(f"not utf-8 text at byte {error.start}") from None


def parsed(source: str, word: str) -> tuple[str, str, Broken | None]:
    """A cell as Python, the indentation it lost for that, and None; if it is no Python, opaque, and why it is none."""
    from xlaport.analysis.build import Unparsable, parse  # here, as a cached answer of `lint` needs no analysis

    indent = magics.indentation(source)
    plain = magics.dedented(source, indent)
    for python in dict.fromkeys((plain, magics.as_python(plain, word))):
        try:
            parse(python)
            return python, indent, None
        except Unparsable as error:
            why = Broken(min(error.line, max(len(lines_of(source)), 1)), error.column + len(indent), str(error))
    return magics.opaque(source, word), "", why


def outdented(cell: CodeCell, source: str, indent: str) -> str:
    """The source of a cell as it is written, from one without the indentation."""
    if not indent:
        return source
    return cell.source if source == magics.dedented(cell.source, indent) else magics.indented(source, indent)


def within(before: str, after: str) -> str:
    """An edited cell with the blank lines at its ends that it had: those of a file would part it from what is now another cell."""
    if not before.strip("\r\n"):
        return after.strip("\r\n")
    head, tail = len(before) - len(before.lstrip("\r\n")), len(before.rstrip("\r\n"))
    return before[:head] + after.strip("\r\n") + before[tail:]


def wants_gpu(metadata: dict) -> bool:
    """`accelerator` is Colab's, `kaggle.accelerator` Kaggle's."""
    kaggle = metadata.get("kaggle")
    asked = (metadata.get("accelerator"), kaggle.get("accelerator") if isinstance(kaggle, dict) else None)
    return any(isinstance(value, str) and ("gpu" in value.lower() or "nvidia" in value.lower()) for value in asked)
