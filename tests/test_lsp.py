"""`xlaport lsp`, asked by a client over standard input and output."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import program

pytest.importorskip("pygls")

from documented import OWN_RULE  # noqa: E402
from lsp_client import applied, editor  # noqa: E402 - needs pygls
from lsprotocol import types  # noqa: E402

from xlaport import cli  # noqa: E402

CUDA = "import torch\n\nx = torch.ones(1).cuda()\ntorch.cuda.empty_cache()\n"
CLEAN = "import torch\n\nx = torch.ones(1)\n"
LOOP = program(
    """
    import torch
    from torch import nn

    model, optimizer = nn.Linear(4, 4), None
    for step in range(10):
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
        total = loss.item()
    """
)


def run(folder: Path, conversation, *others: Path, **options) -> None:
    async def session() -> None:
        async with editor(folder, *others, **options) as client:
            await conversation(client)

    asyncio.run(session())


def codes(found: list[types.Diagnostic]) -> list[str]:
    return [item.code for item in found]


def linted(capsys, monkeypatch, path: Path, text: str) -> list[tuple]:
    """What `xlaport lint -` says: code, line and column from 0."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(text.encode())}))
    cli.main(["lint", "-", "--stdin-filename", str(path), "--json"])
    return [(item["code"], item["line"] - 1, item["column"] - 1) for item in json.loads(capsys.readouterr().out)["findings"]]


# -- findings


def test_unsaved_text_is_looked_at_as_lint_does(here, capsys, monkeypatch):
    """Settings, comments, patterns and what a file imports: the same findings at the same places."""
    (here / "pyproject.toml").write_text('[tool.xlaport]\nignore = ["XP121"]\n[tool.xlaport.per-file-ignores]\n"tests" = ["XP2"]\n')
    (here / "tests").mkdir()
    (here / "places.py").write_text('device = "cuda:0"\n')
    (here / "train.py").write_text("")
    text = CUDA + "y = x.cuda()  # xlaport: ignore[XP104]\nfrom places import device\nz = x.to(device)\nz.cpu()  # xlaport: ignore[XP601]\n" + LOOP
    expected = {name: linted(capsys, monkeypatch, here / name, text) for name in ("train.py", "tests/train.py")}
    assert len(expected["train.py"]) >= 3 and expected["train.py"] != expected["tests/train.py"]

    async def conversation(client):
        for name, places in expected.items():
            found = await client.open(here / name, text)
            assert [(item.code, item.range.start.line, item.range.start.character) for item in found] == places

    run(here, conversation)


def test_findings_follow_edits_and_go_with_the_file(here):
    path = here / "train.py"
    path.write_text(CUDA)

    async def conversation(client):
        found = await client.open(path)
        assert codes(found) == ["XP104", "XP121"]
        assert [item.severity for item in found] == [types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Information]
        assert all(item.source == "xlaport" and item.code_description.href.endswith(".md") for item in found)
        assert codes(await client.change(path, CUDA.replace("torch.cuda.empty_cache()\n", ""))) == ["XP104"]
        assert await client.change(path, CLEAN) == []
        await client.change(path, CUDA)
        close = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(path.as_uri()))
        assert await client.after(path.as_uri(), lambda: client.text_document_did_close(close)) == []

    run(here, conversation)


def test_a_broken_file_is_a_finding_and_mends(here):
    path = here / "train.py"

    async def conversation(client):
        for broken in ("import torch\nx = (\n", "x = 1\n\0", "def f(:\n", "\ud800"):
            assert codes(await client.open(path, broken)) == ["XP001"], broken
        assert await client.actions(path.as_uri(), 0) == []
        assert codes(await client.change(path, CUDA)) == ["XP104", "XP121"]

    run(here, conversation)


def test_places_are_in_utf16_unless_the_client_asks_otherwise(here):
    """An emoji is one character, two units of UTF-16 and four of UTF-8; a form feed ends no line."""
    text = "import torch\n\f\nname = '😀é'; x = torch.ones(1).cuda()\n"
    path = here / "train.py"
    columns = {}
    for encoding in ("utf-16", "utf-8", "utf-32"):

        async def conversation(client, encoding=encoding):
            (found,) = await client.open(path, text)
            assert found.range.start.line == 2
            columns[encoding] = (found.range.start.character, found.range.end.character)

        run(here, conversation, encodings=[encoding])
    line = text.splitlines(keepends=True)[-1].rstrip("\n")
    start, end = line.index("torch.ones"), len(line)
    assert columns == {
        "utf-32": (start, end), "utf-16": (start + 1, end + 1), "utf-8": (start + 4, end + 4),
    }


def test_a_file_that_declares_an_encoding_is_taken_as_the_editor_has_it(here):
    text = "# -*- coding: latin-1 -*-\nimport torch\ns = 'é'; x = torch.ones(1).cuda()\n"

    async def conversation(client):
        (found,) = await client.open(here / "train.py", text)
        assert found.range.start.character == text.splitlines()[2].index("torch.ones")

    run(here, conversation)


def test_other_peoples_code_and_other_schemes_are_left_alone(here):
    package = here / ".venv" / "lib" / "site-packages" / "some.py"

    async def conversation(client):
        for uri in (package.as_uri(), "git:/some/train.py"):
            client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, CUDA)))
        await client.open(here / "train.py", CUDA)
        assert list(client.published) == [(here / "train.py").as_uri()]
        client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem("untitled:Untitled-1", "python", 1, CUDA)))
        await client.until(lambda: "untitled:Untitled-1" in client.published)
        assert codes(client.published["untitled:Untitled-1"].diagnostics) == ["XP104", "XP121"]

    run(here, conversation)


# -- settings and other files


def test_settings_are_read_again_when_they_change(here):
    path, settings = here / "train.py", here / "pyproject.toml"
    changed = types.DidChangeWatchedFilesParams([types.FileEvent(settings.as_uri(), types.FileChangeType.Changed)])

    async def conversation(client):
        assert codes(await client.open(path, CUDA)) == ["XP104", "XP121"]
        await client.until(lambda: "**/pyproject.toml" in client.watched)
        settings.write_text('[tool.xlaport]\nignore = ["XP121"]\n')
        assert codes(await client.after(path.as_uri(), lambda: client.workspace_did_change_watched_files(changed))) == ["XP104"]
        settings.write_text("[tool.xlaport]\nignroe = []\n")
        (problem,) = await client.after(settings.as_uri(), lambda: client.workspace_did_change_watched_files(changed))
        assert "no setting 'ignroe'" in problem.message
        await client.until(lambda: client.messages and not client.published[path.as_uri()].diagnostics)
        settings.write_text("[tool.xlaport]\n")
        assert await client.after(settings.as_uri(), lambda: client.workspace_did_change_watched_files(changed)) == []
        await client.until(lambda: codes(client.published[path.as_uri()].diagnostics) == ["XP104", "XP121"])  # open files follow the settings'
        assert len(client.messages) == 1

    run(here, conversation)


def test_each_folder_of_a_workspace_has_its_settings(tmp_path):
    for name, ignored in (("one", "XP104"), ("two", "XP121")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(f'[tool.xlaport]\nignore = ["{ignored}"]\n')

    async def conversation(client):
        assert codes(await client.open(tmp_path / "one" / "train.py", CUDA)) == ["XP121"]
        assert codes(await client.open(tmp_path / "two" / "train.py", CUDA)) == ["XP104"]

    run(tmp_path / "one", conversation, tmp_path / "two")


def test_unsaved_text_of_one_file_decides_about_another(here):
    (here / "backend.py").write_text("from torch import cpu\n")
    text = "import torch\nfrom backend import *\ncuda.empty_cache()\n"

    async def conversation(client):
        assert codes(await client.open(here / "train.py", text)) == []
        await client.open(here / "backend.py", "from torch import cuda\n")
        assert codes(await client.change(here / "train.py", text + "\n")) == ["XP121"]
        await client.change(here / "backend.py", "from torch import cpu\n")
        saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier((here / "backend.py").as_uri()))
        assert await client.after((here / "train.py").as_uri(), lambda: client.text_document_did_save(saved)) == []

    run(here, conversation)


# -- hover


def test_hover_shows_the_page_of_the_rule(here):
    path = here / "train.py"

    async def conversation(client):
        await client.open(path, CUDA + "y = 1  # xlaport: ignore[XP601]\n")
        page = await client.hover(path, 3, 5)
        assert page.startswith("# XP121 cuda-cache-call") and "## Why it matters on a TPU" in page
        assert (await client.hover(path, 4, 29)).startswith("# XP601")
        assert await client.hover(path, 0, 3) is None
        assert await client.hover(path, 99, 0) is None

    run(here, conversation)


# -- code actions


def test_a_safe_fix_an_unsafe_one_and_a_comment(here):
    """Each is applied to the text as an editor would, and the finding is gone."""
    path = here / "train.py"
    text = program(
        """
        import torch
        name = "😀"; torch.cuda.empty_cache()
        torch.backends.cudnn.benchmark = True
        x = torch.ones(3).cuda()
        """
    )

    async def conversation(client):
        assert codes(await client.open(path, text)) == ["XP121", "XP135", "XP104"]
        uri = path.as_uri()
        fix, ignore, everything = await client.actions(uri, 1)
        assert (fix.title, fix.kind, fix.is_preferred) == ("Fix XP121 (cuda-cache-call)", "quickfix", True)
        assert applied(text, fix, uri).splitlines()[1] == 'name = "😀"'
        assert ignore.title == "Ignore XP121 on this line" and not ignore.is_preferred
        assert applied(text, ignore, uri).splitlines()[1] == 'name = "😀"; torch.cuda.empty_cache()  # xlaport: ignore[XP121]'
        assert codes(await client.change(path, applied(text, ignore, uri))) == ["XP135", "XP104"]
        assert everything.kind == "source.fixAll.xlaport"
        assert codes(await client.change(path, applied(text, everything, uri))) == ["XP104"]
        port = await client.actions(uri, next(index for index, line in enumerate(applied(text, everything, uri).splitlines()) if ".cuda()" in line))
        assert [action.title for action in port] == ["Ignore XP104 on this line"]

    run(here, conversation)


def test_unsafe_fixes_say_so_and_are_not_part_of_all(here):
    path = here / "train.py"
    text = program(
        """
        import torch
        from torch import nn

        model = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(10):
            loss = model(torch.randn(2, 4).cuda()).sum()
            if loss > 3:
                loss = loss * 2
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
        """
    )

    async def conversation(client):
        found = await client.open(path, text)
        line = next(item.range.start.line for item in found if item.code == "XP401")
        offered = await client.actions(path.as_uri(), line, only=["quickfix"])
        (unsafe,) = [action for action in offered if "unsafe" in action.title]
        assert not unsafe.is_preferred and unsafe.kind == "quickfix"
        assert "torch.where(loss > 3, loss * 2, loss)" in applied(text, unsafe, path.as_uri())
        (everything,) = await client.actions(path.as_uri(), line, only=["source.fixAll"])
        after = applied(text, everything, path.as_uri())
        assert "empty_cache" not in after and "if loss > 3" in after

    run(here, conversation)


def test_the_menu_that_opens_by_itself_has_no_fix_all(here):
    path = here / "train.py"

    async def conversation(client):
        await client.open(path, CUDA)
        kinds = [action.kind for action in await client.actions(path.as_uri(), 3, automatic=True)]
        assert kinds == ["quickfix", "quickfix"]
        assert [action.kind for action in await client.actions(path.as_uri(), 0, only=["source"])] == ["source.fixAll.xlaport"]
        assert await client.actions(path.as_uri(), 3, only=["refactor"]) == []

    run(here, conversation)


def test_a_comment_is_offered_where_one_can_stand(here):
    path = here / "train.py"
    lines = {
        "torch.cuda.empty_cache()  # frees memory": "torch.cuda.empty_cache()  # frees memory  # xlaport: ignore[XP121]",
        "torch.cuda.empty_cache()  # xlaport: ignore[XP601]": "torch.cuda.empty_cache()  # xlaport: ignore[XP601, XP121]",
        "y = torch.cuda.empty_cache() or \\\n    1": None,
        'y = f"""{torch.cuda.empty_cache()}\n"""': None,
    }

    async def conversation(client):
        await client.open(path, CLEAN)
        for line, expected in lines.items():
            text = f"import torch\n{line}\n"
            assert "XP121" in codes(await client.change(path, text))
            actions = await client.actions(path.as_uri(), 1, only=["quickfix"])
            offered = [applied(text, action, path.as_uri()) for action in actions if action.title == "Ignore XP121 on this line"]
            assert offered == ([f"import torch\n{expected}\n"] if expected else []), line

    run(here, conversation)


# -- notebooks


def test_the_cells_of_a_notebook_are_one_program(here):
    book = (here / "train.ipynb").as_uri()
    texts = ['import torch\ndevice = torch.device("cuda")', "%time\nx = torch.ones(1).to(device)\ntorch.cuda.empty_cache()", "def broken(:"]
    uris = [f"vscode-notebook-cell:{book.removeprefix('file://')}#c{number}" for number in range(len(texts))]

    async def conversation(client):
        cells = [types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in uris]
        documents = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, texts)]
        opened = types.DidOpenNotebookDocumentParams(types.NotebookDocument(book, "jupyter-notebook", 1, cells), documents)
        client.notebook_document_did_open(opened)
        await client.until(lambda: all(uri in client.published for uri in uris))
        found = {uri: codes(client.published[uri].diagnostics) for uri in uris}
        assert found[uris[0]] == ["XP102"] and found[uris[2]] == ["XP001"]
        (cache,) = [item for item in client.published[uris[1]].diagnostics if item.code == "XP121"]
        assert (cache.range.start.line, cache.range.start.character) == (2, 0)
        fix, ignore = await client.actions(uris[1], 2, only=["quickfix"])
        assert "empty_cache" not in applied(texts[1], fix, uris[1])
        assert applied(texts[1], ignore, uris[1]).endswith("torch.cuda.empty_cache()  # xlaport: ignore[XP121]")

        edited = types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(2, uris[2]), [types.TextDocumentContentChangeWholeDocument("y = x")]
        )
        change = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[edited]))
        changed = types.DidChangeNotebookDocumentParams(types.VersionedNotebookDocumentIdentifier(2, book), change)
        assert await client.after(uris[2], lambda: client.notebook_document_did_change(changed)) == []

    run(here, conversation)


# -- the command


@pytest.mark.parametrize("missing", ["pygls", "pygls.lsp.server"], ids=["none", "of another release"])
def test_without_pygls_a_line_names_the_extra(missing, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("xlaport.lsp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert cli.main(["lsp"]) == 2
    assert capsys.readouterr().err == "xlaport: the language server needs pygls 2: pip install 'xlaport[lsp]'\n"


def test_own_rules_are_found_and_read_again_when_they_change(here):
    """Pages that settings name: data, whose text may change while the editor runs."""
    page = here / "rules" / "own001-old-checkpoint.md"
    page.parent.mkdir()
    page.write_text(OWN_RULE)
    (here / "pyproject.toml").write_text('[tool.xlaport]\nextend-rules = ["rules"]\nselect = ["OWN"]\n')
    path, text = here / "train.py", "import torch\n\ntorch.save({}, 'a.pt')\ntorch.load('a.pt')\n"
    changed = types.DidChangeWatchedFilesParams([types.FileEvent(page.as_uri(), types.FileChangeType.Changed)])

    async def conversation(client):
        assert [(item.code, item.range.start.line) for item in await client.open(path, text)] == [("OWN001", 2)]
        assert (await client.hover(path, 2, 3)).startswith("# OWN001 old-checkpoint")
        page.write_text(OWN_RULE.replace('["torch.save"]', '["torch.load"]'))
        found = await client.after(path.as_uri(), lambda: client.workspace_did_change_watched_files(changed))
        assert [(item.code, item.range.start.line) for item in found] == [("OWN001", 3)]

    run(here, conversation)


def test_the_server_ends_with_its_client(here):
    done = subprocess.run([sys.executable, "-m", "xlaport", "lsp"], input=b"", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")
