"""What the editor has open, as the checks take it; places and edits in the protocol's terms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec, Workspace

from xlaport.diagnostics import Diagnostic, TextEdit
from xlaport.files import ALWAYS_SKIPPED, absolute
from xlaport.lsp.checking import raw_of
from xlaport.source import NOTEBOOK, PYTHON, lines_of

CELL_SCHEME = "vscode-notebook-cell"
SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning, "note": types.DiagnosticSeverity.Information}


@dataclass(frozen=True)
class Part:
    """A document of the editor: a file, or one cell of a notebook. Lines are those of the protocol and of Python, ended by newlines only."""

    uri: str
    lines: list[str]
    version: int | None

    def place(self, codec: PositionCodec, line: int, column: int) -> types.Position:
        """Line and column from 1, in characters -> from 0, in the units of the client."""
        if line > len(self.lines):
            return types.Position(len(self.lines), 0)
        return types.Position(line - 1, codec.client_num_units(self.lines[line - 1][: column - 1]))

    def range(self, codec: PositionCodec, found: Diagnostic | TextEdit) -> types.Range:
        return types.Range(self.place(codec, found.line, found.column), self.place(codec, found.end_line, found.end_column))


@dataclass(frozen=True)
class Opened:
    """One open file at one version. `parts`: number of a cell, None for the whole of a file that is no notebook -> its document."""

    uri: str
    path: Path
    raw: bytes
    parts: dict[int | None, Part]

    @property
    def version(self) -> tuple:
        return tuple((part.uri, part.version) for part in self.parts.values())

    def part_of(self, uri: str) -> int | None:
        return next((number for number, part in self.parts.items() if part.uri == uri), None)

    def edit(self, codec: PositionCodec, edits: tuple[TextEdit, ...]) -> types.WorkspaceEdit:
        changes: dict[str, list[types.TextEdit]] = {}
        for edit in edits:
            part = self.parts[edit.cell]
            changes.setdefault(part.uri, []).append(types.TextEdit(part.range(codec, edit), edit.content))
        return types.WorkspaceEdit(changes=changes)


def all_opened(workspace: Workspace) -> Iterator[Opened]:
    """Open files that are looked at, notebooks among them."""
    cells = {cell.document for book in workspace.notebook_documents.values() for cell in book.cells}
    uris = [*workspace.notebook_documents, *(uri for uri in workspace.text_documents if uri not in cells)]
    yield from filter(None, (opened(workspace, uri) for uri in uris))


def opened(workspace: Workspace, uri: str) -> Opened | None:
    """The file a document belongs to; None for one that is not looked at, such as a file of an installed package."""
    if uri.startswith(CELL_SCHEME + ":"):
        book = workspace.get_notebook_document(cell_uri=uri)
        return notebook(workspace, book) if book else None
    if uri in workspace.notebook_documents:
        return notebook(workspace, workspace.notebook_documents[uri])
    document = workspace.text_documents.get(uri)
    if document is None:
        return None
    path = path_of(workspace, uri, ".py")
    if path is None or path.suffix not in PYTHON or path.suffix == NOTEBOOK:
        return None
    return Opened(uri, path, raw_of(path, document.source), {None: Part(uri, lines_of(document.source), document.version)})


def notebook(workspace: Workspace, book: types.NotebookDocument) -> Opened | None:
    path = path_of(workspace, book.uri, NOTEBOOK)
    if path is None or path.suffix != NOTEBOOK:
        return None
    documents = [workspace.text_documents.get(cell.document) for cell in book.cells]
    texts = [document.source if document else "" for document in documents]
    cells = [{"cell_type": "code" if document else "raw", "metadata": {}, "source": text} for document, text in zip(documents, texts)]
    raw = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode("utf-8", "surrogatepass")
    parts = {number: Part(document.uri, lines_of(document.source), document.version) for number, document in enumerate(documents, 1) if document}
    return Opened(book.uri, path, raw, parts)


def path_of(workspace: Workspace, uri: str, suffix: str) -> Path | None:
    """Where a document is on disk, or would be when it is saved; None for other people's code and for what is no file."""
    scheme, _, rest = uri.partition(":")
    if scheme == "untitled":
        folder = next((to_fs_path(found) for found in workspace.folders), None) or workspace.root_path or "."
        return absolute(Path(folder) / Path(rest.replace("/", "-").lstrip("-")).with_suffix(suffix))
    if scheme != "file":
        return None
    path = absolute(Path(to_fs_path(uri)))
    return None if ALWAYS_SKIPPED & set(path.parts) else path
