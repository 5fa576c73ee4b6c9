"""The language server: what the editor tells it, and what it answers. Analysis runs in one thread beside the loop."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from xlaport import __version__, config, suppress
from xlaport.commands.rule import page
from xlaport.diagnostics import Diagnostic
from xlaport.errors import UserError, one_line
from xlaport.lint import check
from xlaport.lsp import actions
from xlaport.lsp.checking import Checked, check_file
from xlaport.lsp.opened import SEVERITIES, Opened, Part, all_opened, opened
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule

FIX_ALL = "source.fixAll.xlaport"
PAUSE = 0.2
"""Seconds without a key before an edited file is looked at."""

STACK = 16 << 20
"""Bytes for the thread that analyses: nested code takes several calls a level, and macOS gives a thread 512 KiB."""

WATCHED = ("**/pyproject.toml", "**/*.py", "**/*.md")
"""Settings, files that open ones import, and rule pages of the project's own."""

CODE = re.compile(r"\w+")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Known:
    """The last answer about a file, and for which version of it."""

    version: tuple
    checked: Checked


class Server(LanguageServer):
    """Documents are synchronised whole: lines of Python, which a form feed does not end, are then nobody's to agree on."""

    def __init__(self, python_rules: tuple[Path, ...] = ()):
        cells = [types.NotebookCellLanguage("python")]
        selector = [types.NotebookDocumentFilterWithCells(cells=cells, notebook="jupyter-notebook")]
        super().__init__(
            "xlaport", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full,
            notebook_document_sync=types.NotebookDocumentSyncOptions(selector),
        )
        self.python_rules = python_rules
        self.known: dict[str, Known] = {}
        self.waiting: dict[str, asyncio.Task] = {}
        self.refused: dict[str, str] = {}
        """URI of a file of settings that is wrong -> what is wrong."""

        threading.stack_size(STACK)
        self.analysis = ThreadPoolExecutor(1, "analysis")

    async def analysed(self, work: Callable[..., Answer], *arguments) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self.analysis, work, *arguments)

    # -- looking at files

    def look_later(self, file: Opened, pause: float) -> None:
        """Look at a file when nothing more is asked of it for some time."""
        if file.uri in self.waiting:
            self.waiting[file.uri].cancel()
        self.waiting[file.uri] = asyncio.ensure_future(self._look_after(pause, file.uri))

    async def _look_after(self, pause: float, uri: str) -> None:
        await asyncio.sleep(pause)
        file = opened(self.workspace, uri)
        if file is None:
            return
        try:
            checked = await self.checked(file, afresh=True)
        except Exception as error:
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"xlaport: {file.path} was not looked at: {error!r}"))
            raise
        now = opened(self.workspace, uri)
        if checked is not None and now is not None and now.version == file.version:
            self.publish(file, checked)

    def look_at_all(self) -> None:
        for file in all_opened(self.workspace):
            self.look_later(file, PAUSE)

    async def checked(self, file: Opened, afresh: bool = False) -> Checked | None:
        """What is found in a version of a file; None where the settings are wrong, which is then said."""
        known = self.known.get(file.uri)
        if known is not None and known.version == file.version and not afresh:
            return known.checked
        others = {other.path: other.raw for other in all_opened(self.workspace)}
        settings = config.file_for(file.path.parent)
        try:
            checked = await self.analysed(check_file, file.path, file.raw, others, self.python_rules)
        except UserError as error:
            self.refuse(settings, one_line(str(error)))
            self.publish(file, None)
            return None
        self.accept(settings)
        self.known[file.uri] = Known(file.version, checked)
        return checked

    def forget(self, uri: str) -> None:
        self.known.pop(uri, None)
        task = self.waiting.pop(uri, None)
        if task is not None:
            task.cancel()

    # -- what is said

    def publish(self, file: Opened, checked: Checked | None) -> None:
        """Of every document of the file, also of those without a finding, so that what was there goes."""
        for number, part in file.parts.items():
            shown = [self.shown(file, item, checked) for item in checked.diagnostics if item.cell == number] if checked else []
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(part.uri, shown, part.version))

    def shown(self, file: Opened, found: Diagnostic, checked: Checked) -> types.Diagnostic:
        rule = checked.rule(found.code)
        page_file = types.CodeDescription(rule.path.as_uri()) if rule else None
        place = file.parts[found.cell].range(self.workspace.position_codec, found)
        return types.Diagnostic(place, found.message, SEVERITIES[found.severity], found.code, page_file, "xlaport")

    def refuse(self, settings: Path | None, message: str) -> None:
        """Wrong settings are said once, and stand in their file."""
        uri = settings.as_uri() if settings else ""
        if self.refused.get(uri) == message:
            return
        self.refused[uri] = message
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"xlaport: {message}"))
        if settings:
            start = types.Position(0, 0)
            problem = types.Diagnostic(types.Range(start, start), message, types.DiagnosticSeverity.Error, source="xlaport")
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, [problem]))

    def accept(self, settings: Path | None) -> None:
        uri = settings.as_uri() if settings else ""
        if self.refused.pop(uri, None) is not None and settings:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def make(python_rules: tuple[Path, ...] = ()) -> Server:
    """A server with its features registered; `start_io` runs it."""
    server = Server(python_rules)

    # -- documents

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        file = opened(ls.workspace, params.text_document.uri)
        if file is not None:
            ls.look_later(file, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.look_at_all()  # others may import it

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        file = opened(ls.workspace, params.text_document.uri)
        if file is not None:
            ls.look_later(file, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    async def notebook_did(ls: Server, params) -> None:
        file = opened(ls.workspace, params.notebook_document.uri)
        if file is not None:
            ls.look_later(file, PAUSE)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def notebook_did_close(ls: Server, params: types.DidCloseNotebookDocumentParams) -> None:
        ls.forget(params.notebook_document.uri)
        for cell in params.cell_text_documents:
            ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(cell.uri, []))

    # -- settings and other files

    @server.feature(types.INITIALIZED)
    async def initialized(ls: Server, params: types.InitializedParams) -> None:
        workspace = ls.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace else None
        if watching and watching.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(pattern) for pattern in WATCHED])
            registration = types.Registration("xlaport-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await ls.client_register_capability_async(types.RegistrationParams([registration]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
        if any(change.uri.endswith(".md") for change in params.changes):
            await ls.analysed(forget_own_rules)
        ls.look_at_all()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
        ls.look_at_all()

    # -- questions

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        file = opened(ls.workspace, params.text_document.uri)
        checked = await ls.checked(file) if file else None
        if checked is None:
            return None
        number = file.part_of(params.text_document.uri)
        part, codec = file.parts[number], ls.workspace.position_codec
        named = comment_at(checked, part, codec, params.position)
        if named is not None:
            return named
        for found in checked.diagnostics:
            place = part.range(codec, found)
            if found.cell == number and place.start <= params.position <= place.end:
                return page_of(checked.rule(found.code), place)
        return None

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL]))
    async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        file = opened(ls.workspace, params.text_document.uri)
        checked = await ls.checked(file) if file else None
        if checked is None or checked.source is None:
            return []
        made = []
        if wants(params.context, types.CodeActionKind.QuickFix):
            made += await quick_fixes(ls, file, checked, params)
        if wants_all(params.context) and actions.has_safe_fix(checked):
            edits = await ls.analysed(actions.all_safe, checked)
            edit = file.edit(ls.workspace.position_codec, edits)
            made += [types.CodeAction("Fix all that is safe (xlaport)", FIX_ALL, edit=edit)] if edits else []
        return made

    return server


def forget_own_rules() -> None:
    """Rule pages are read once a run; an editor's run is long."""
    for remembered in (load.own, check.rules_of, check.index_of):
        remembered.cache_clear()


def page_of(rule: Rule | None, place: types.Range) -> types.Hover | None:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, page(rule)), place) if rule else None


def comment_at(checked: Checked, part: Part, codec: PositionCodec, position: types.Position) -> types.Hover | None:
    """The page of a rule that a comment names: `# xlaport: ignore[XP601]`."""
    if position.line >= len(part.lines):
        return None
    line = part.lines[position.line]
    comment = suppress.COMMENT.search(line)
    for word in CODE.finditer(line, *comment.span(2)) if comment and comment[2] else ():
        start, end = (types.Position(position.line, codec.client_num_units(line[:column])) for column in word.span())
        if start <= position <= end:
            return page_of(checked.rule(word[0].upper()), types.Range(start, end))
    return None


async def quick_fixes(ls: Server, file: Opened, checked: Checked, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Fixes of the findings that the range touches; unsafe ones say so and are never preferred."""
    number, codec = file.part_of(params.text_document.uri), ls.workspace.position_codec
    shown = {
        finding: ls.shown(file, item, checked)
        for finding, item in zip(checked.findings, checked.diagnostics)
        if item.cell == number and touches(file.parts[number].range(codec, item), params.range)
    }
    found = await ls.analysed(lambda: list(actions.at(checked, list(shown))))
    return [
        types.CodeAction(
            action.title, types.CodeActionKind.QuickFix, [shown[action.finding]],
            is_preferred=action.kind is actions.Kind.SAFE, edit=file.edit(codec, action.edits),
        )
        for action in found
    ]


def touches(place: types.Range, asked: types.Range) -> bool:
    return place.start <= asked.end and asked.start <= place.end


def wants(context: types.CodeActionContext, kind: str) -> bool:
    """A kind that is asked for stands for those below it: `source` for `source.fixAll`."""
    return not context.only or any(kind == asked or kind.startswith(f"{asked}.") for asked in context.only)


def wants_all(context: types.CodeActionContext) -> bool:
    """Fixing everything takes a run of the rewriter: not for the menu that opens by itself at every move of the cursor."""
    if not context.only and context.trigger_kind == types.CodeActionTriggerKind.Automatic:
        return False
    return wants(context, FIX_ALL)
