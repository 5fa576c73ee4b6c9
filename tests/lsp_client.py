"""A client of the language server, which runs as an editor starts it: a child process that talks on its standard streams."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

LIMIT = 60
"""Seconds for an answer: a start and the rules take one, on a machine that does nothing else."""

WATCHES = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True), workspace_folders=True
    )
)


class Editor(LanguageClient):
    """Keeps what the server says. `published` is empty for a document until something is."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.messages: list[str] = []
        self.watched: list[str] = []
        self.news = asyncio.Condition()
        self.versions: dict[str, int] = {}

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def publish(params: types.PublishDiagnosticsParams) -> None:
            async with self.news:
                self.published[params.uri] = params
                self.news.notify_all()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        async def message(params: types.ShowMessageParams) -> None:
            async with self.news:
                self.messages.append(params.message)
                self.news.notify_all()

        @self.feature(types.CLIENT_REGISTER_CAPABILITY)
        async def register(params: types.RegistrationParams) -> None:
            async with self.news:
                self.watched += [watcher["globPattern"] for item in params.registrations for watcher in item.register_options["watchers"]]
                self.news.notify_all()

    async def until(self, holds) -> None:
        async with self.news:
            await asyncio.wait_for(self.news.wait_for(holds), LIMIT)

    async def open(self, path: Path, text: str | None = None) -> list[types.Diagnostic]:
        """What is published of a file; its text on disk without another."""
        uri = path.as_uri()
        body = path.read_text(encoding="utf-8") if text is None else text
        self.versions[uri] = 1
        self.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, body)))
        return await self.of(uri)

    async def change(self, path: Path, text: str) -> list[types.Diagnostic]:
        uri = path.as_uri()
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [types.TextDocumentContentChangeWholeDocument(text)]))
        return await self.of(uri)

    async def of(self, uri: str) -> list[types.Diagnostic]:
        """What is published of a document at its present version."""
        await self.until(lambda: uri in self.published and self.published[uri].version == self.versions.get(uri))
        return list(self.published[uri].diagnostics)

    async def after(self, uri: str, act) -> list[types.Diagnostic]:
        """What is published next of a document."""
        self.published.pop(uri, None)
        act()
        await self.until(lambda: uri in self.published)
        return list(self.published[uri].diagnostics)

    async def hover(self, path: Path, line: int, character: int) -> str | None:
        params = types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), types.Position(line, character))
        found = await asyncio.wait_for(self.text_document_hover_async(params), LIMIT)
        return found.contents.value if found else None

    async def actions(self, uri: str, line: int, only: list[str] | None = None, automatic: bool = False) -> list[types.CodeAction]:
        """Of the whole of a line, counted from 0."""
        place = types.Range(types.Position(line, 0), types.Position(line, 1000))
        kind = types.CodeActionTriggerKind.Automatic if automatic else types.CodeActionTriggerKind.Invoked
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, types.CodeActionContext([], only, kind))
        return await asyncio.wait_for(self.text_document_code_action_async(params), LIMIT) or []


@asynccontextmanager
async def editor(*folders: Path, encodings: list[str] | None = None) -> AsyncIterator[Editor]:
    """An editor with these folders as its workspace, connected to a server in the first of them."""
    client = Editor()
    await client.start_io(sys.executable, "-m", "xlaport", "lsp", "--stdio", cwd=str(folders[0]))
    capabilities = WATCHES
    if encodings:
        general = types.GeneralClientCapabilities(position_encodings=encodings)
        capabilities = types.ClientCapabilities(workspace=WATCHES.workspace, general=general)
    places = [types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders]
    try:
        await asyncio.wait_for(client.initialize_async(types.InitializeParams(capabilities, workspace_folders=places)), LIMIT)
        client.initialized(types.InitializedParams())
        yield client
        await asyncio.wait_for(client.shutdown_async(None), LIMIT)
    finally:
        client.exit(None)
        await client.stop()


def applied(text: str, action: types.CodeAction, uri: str) -> str:
    """A text after an action, its edits taken as UTF-16 says."""
    lines = text.split("\n")

    def offset(place: types.Position) -> int:
        above = sum(len(line.encode("utf-16-le")) + 2 for line in lines[: place.line])
        return above + 2 * place.character

    raw = text.encode("utf-16-le")
    for edit in sorted(action.edit.changes[uri], key=lambda edit: offset(edit.range.start), reverse=True):
        raw = raw[: offset(edit.range.start)] + edit.new_text.encode("utf-16-le") + raw[offset(edit.range.end) :]
    return raw.decode("utf-16-le")
