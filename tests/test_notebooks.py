"""Notebooks in `migrate` and `lint`: joined cells, places, edits put back, and every other byte as it was."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import PLAIN, program
from test_migrate_command import environment

from xlaport import cli, engine, projectfiles
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.engine import FileChange, Selection
from xlaport.errors import NotRewritable
from xlaport.notebook import Notebook
from xlaport.source import OtherLanguage, Undecodable, read

NAME = "train.ipynb"
PATH = Path("/project") / NAME
IMPORTS = "import torch"
DEVICE = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
TRAIN = program("""
    net = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.ones(1, 1).cuda()).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
    """)


def cell(source: str, kind: str = "code", as_list: bool = True) -> dict:
    made = {"cell_type": kind, "id": "a1", "metadata": {"tags": ["é"]}, "source": re.findall(r"[^\n]*\n|[^\n]+", source) if as_list else source}
    return made | ({"execution_count": 3, "outputs": [{"output_type": "stream", "text": ["cuda:0\n", "\u001b[0m"]}]} if kind == "code" else {})


def document(*sources: str | dict, **metadata: object) -> dict:
    cells = [source if isinstance(source, dict) else cell(source) for source in sources]
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def encoded(*sources: str | dict, indent: int | None = 1, **metadata: object) -> bytes:
    return (json.dumps(document(*sources, **metadata), indent=indent, ensure_ascii=False) + "\n").encode()


def opened(*sources: str | dict, **metadata: object) -> Notebook:
    return read(PATH, NAME, encoded(*sources, **metadata))


def migrated(raw: bytes) -> FileChange:
    source = read(PATH, NAME, raw)
    selection = Selection(Settings(), PLAIN)
    changes = engine.migrate(Project(PATH.parent, {PATH: source}), selection)
    return projectfiles.complete(changes, {PATH: source}, selection)[PATH]


def sources(raw: bytes) -> list[str]:
    return ["".join(item["source"]) for item in json.loads(raw)["cells"]]


def ported(*cells: str | dict) -> list[str]:
    return sources(migrated(encoded(*cells)).after.raw)


def run(*arguments: object) -> tuple[int, str, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main([*map(str, arguments)])
        out.flush()
    return status, out.buffer.getvalue().decode(), err.getvalue()


def lint(folder: Path, *arguments: object) -> str:
    return run("lint", "--no-cache", folder, *arguments)[1]


# -- cells as one program


def test_names_flow_across_cells_and_the_import_goes_to_the_cell_of_the_imports():
    assert ported(cell("# Title", "markdown"), IMPORTS, DEVICE, TRAIN) == [
        "# Title",
        "import torch\nimport torch_xla.core.xla_model as xm",
        "device = xm.xla_device()",
        TRAIN.replace(".cuda()", ".to(xm.xla_device())").replace("optimizer.step()", "xm.optimizer_step(optimizer, barrier=True)"),
    ]


def test_an_import_is_added_above_its_first_use():
    assert ported("import torch\nimport os", "device = torch.device('cuda')", "import torch.nn as nn") == [
        "import torch\nimport torch_xla.core.xla_model as xm\nimport os", "device = xm.xla_device()", "import torch.nn as nn",
    ]


def test_without_imports_in_the_notebook_the_first_cell_has_them():
    assert ported("%run setup.ipynb", "x = x.to('cuda')\ny = x.cuda()")[0].startswith("import torch_xla.core.xla_model as xm\n%run setup.ipynb")


def test_a_statement_that_goes_leaves_its_cell_empty():
    assert ported(IMPORTS, "torch.cuda.empty_cache()", "x = torch.ones(1)\n\n") == [IMPORTS, "", "x = torch.ones(1)\n\n"]


def test_blank_lines_at_the_ends_of_an_edited_cell_stay():
    assert ported("import torch", "\n\ntorch.cuda.empty_cache()\nx = 1\n\n\n") == ["import torch", "\n\nx = 1\n\n\n"]


def test_indentation_that_ipython_takes_away():
    assert ported(IMPORTS, f"  # where\n  {DEVICE}\n  !ls\n  device") == [
        "import torch\nimport torch_xla.core.xla_model as xm", "  # where\n  device = xm.xla_device()\n  !ls\n  device",
    ]


def test_await_outside_of_functions():
    assert ported(IMPORTS, "x = await load()\nasync with x as y:\n    y.cuda()")[1] == "x = await load()\nasync with x as y:\n    y.to(xm.xla_device())"


# -- what is IPython's


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline", "!ls -la\n!cd x && \\\n   make", "net?", "??torch.nn", "net.forward??", "  !ls", "files = !ls *.py", "a, b = %sql select 1",
        "%%time\nx = 1", "%%timeit -n 10\nx = 1\n%pylab", "for i in x:\n    !echo {i}\n    %time f(i)", "pip install einops", "cd src",
        "%%bash\nif [ -e x ]; then\n  rm x\nfi", "%%html\n<b>'</b>", "%%writefile x.txt\n'''", "x = 1 if y else \\\n    2\n!ls", "'''\n!ls\n'''\n!ls",
        "f(a\n  % b)\n%reset -f", "x = 'it''s' # ' (\n!ls", "", "\n", "# only a comment", "if x:\n    pass\n    # end", "!echo \u2028 é \x0c\n!x",
    ],
)
def test_lines_of_ipython_parse_and_come_back(source):
    raw = encoded(source, "x = 1")
    made = read(PATH, NAME, raw)
    assert not made.broken
    assert dict(made.divided(made.text))[1] == source
    assert made.text.count("\n") == made.shown.count("\n")
    assert made.with_text(made.text).raw == raw


def test_a_modulo_is_none():
    made = opened("x = (a\n% b)\n")
    assert "get_ipython" not in made.text


def test_the_word_of_the_borders_is_one_no_cell_has():
    source = '"xlaport-cell 1"\nget_ipython()  # xlaport-line "x"\nimport torch\ntorch.cuda.empty_cache()'
    assert ported("x = 1", source)[1] == source.removesuffix("\ntorch.cuda.empty_cache()")


def test_a_border_that_is_lost_refuses_the_notebook():
    made = opened("x = 1", "y = 2")
    with pytest.raises(NotRewritable):
        made.with_text(made.text.replace('"xlaport-cell 2"\n', ""))


# -- what cannot be read


def test_a_cell_that_does_not_parse_is_named_and_the_others_are_ported():
    change = migrated(encoded(IMPORTS, "# a\nprint 'x'\nx = 1", "torch.ones(1).cuda()", "f(\n", "'HALF'").replace(b"HALF", b"\\ud83d"))
    found = [f.located(change.after) for f in change.remaining if f.code == "XP001"]
    assert [f.location.shown for f in found] == ["cell 2:2", "cell 4:1", "cell 5:1"]
    assert sources(change.after.raw)[2] == "torch.ones(1).to(xm.xla_device())"
    assert sources(change.after.raw)[1] == "# a\nprint 'x'\nx = 1"


BAD = {
    b"": "not JSON", b"{": "not JSON", b"[]": "not a notebook", b'{"cells": 1}': "not a notebook", b"\xff\xfe": "not utf-8",
    b'{"nbformat": 3, "worksheets": []}': "a notebook of format 3", b"[" * 100_000: "not JSON",
}


@pytest.mark.parametrize("raw, why", BAD.items(), ids=BAD.values())
def test_what_is_no_notebook_is_one_outcome(tmp_path, raw, why):
    with pytest.raises(Undecodable, match=why):
        read(PATH, NAME, raw)
    (tmp_path / NAME).write_bytes(raw)
    status, out, _ = run("migrate", tmp_path)
    assert status == 2 and f"failed: {NAME}: {why}" in out and out.count(NAME) == 1
    assert (tmp_path / NAME).read_bytes() == raw
    assert f"{NAME}:1:1: XP001 cannot be parsed: {why}" in lint(tmp_path)


@pytest.mark.parametrize("metadata", [{"kernelspec": {"language": "julia"}}, {"language_info": {"name": "julia"}}])
def test_another_language_is_skipped(tmp_path, metadata):
    raw = encoded("x = cuda(1)", **metadata)
    with pytest.raises(OtherLanguage):
        read(PATH, NAME, raw)
    (tmp_path / NAME).write_bytes(raw)
    status, out, _ = run("migrate", tmp_path)
    assert status == 0 and "1 skipped" in out and "a notebook in julia" in out
    status, out, _ = run("lint", "--no-cache", tmp_path)
    assert status == 0 and "XP001 not looked at: a notebook in julia" in out


def test_sources_that_are_missing_or_odd_are_no_cells():
    raw = json.dumps({"cells": [{"cell_type": "code"}, 1, {"cell_type": "code", "source": 1}, cell(IMPORTS), cell("torch.cuda.empty_cache()")]}).encode()
    assert [found.number for found in read(PATH, NAME, raw).joined.cells] == [4, 5]
    assert migrated(raw).after.raw != raw


# -- the bytes


STYLES = {
    "Jupyter": dict(indent=1, ensure_ascii=False), "Colab": dict(indent=2, ensure_ascii=True), "compact": dict(separators=(",", ":")),
    "one line": dict(), "tabs": dict(indent="\t", sort_keys=True), "VS Code": dict(indent=1, ensure_ascii=False, separators=(",", ": ")),
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("end", ["", "\n"])
def test_only_sources_change_in_every_style(style, as_list, end):
    content = document(*(cell(text, as_list=as_list) for text in (IMPORTS + "\nname = 'é/\\n\\\\'\n", DEVICE, TRAIN)), cell("é", "markdown"))
    after = migrated((json.dumps(content, **style) + end).encode()).after.raw
    expected = json.loads(after)
    assert expected != content
    assert after.decode() == json.dumps(expected, **style) + end
    for item, other in zip(content["cells"], expected["cells"]):
        assert type(item["source"]) is type(other["source"])
        assert {**item, "source": ""} == {**other, "source": ""}


def test_lines_that_are_not_edited_keep_their_spelling():
    raw = encoded(IMPORTS + "\n# \\u00e9 é \\/\ntorch.cuda.empty_cache()\nx = 1").replace(b"\\\\u00e9", b"\\u00e9").replace(b"\\\\/", b"\\/")
    after = migrated(raw).after.raw
    assert after == raw.replace(b'    "torch.cuda.empty_cache()\\n",\n', b"")
    text = encoded(cell(IMPORTS + "\n# \\u00e9 é \\/\ntorch.cuda.empty_cache()\nx = 1", as_list=False)).replace(b"\\\\u00e9", b"\\u00e9")
    assert migrated(text).after.raw == text.replace(b"torch.cuda.empty_cache()\\n", b"")


def test_bom_and_line_ends_stay():
    raw = b"\xef\xbb\xbf" + encoded("import torch\r\n", "torch.cuda.empty_cache()\r\nx = x.cuda()\r\n").replace(b"\n", b"\r\n")
    after = migrated(raw).after.raw
    assert after.startswith(b"\xef\xbb\xbf") and after.count(b"\n") == after.count(b"\r\n")
    assert sources(after) == ["import torch\r\nimport torch_xla.core.xla_model as xm\r\n", "x = x.to(xm.xla_device())\r\n"]


# -- any notebook

LINES = st.sampled_from(
    [
        "import torch", "import torch.nn as nn", "x = torch.ones(1).cuda()", "torch.cuda.empty_cache()", DEVICE, "for i in range(3):", "    x = i",
        "    optimizer.step()", "if torch.cuda.is_available():", "    !nvidia-smi", "!pip install torch==1.9+cu111", "%env CUDA_VISIBLE_DEVICES=0", "x?",
        "%%time", "%%bash", "'''", "(", ")", "\\", "", "# é", "\u2028 = 1", "s = '\\n'", "  y = 2", "\tz", "print 1", "model.half()", "x = !ls",
        "with torch.cuda.amp.autocast():", "    loss.backward()", "%matplotlib inline", "\x0c", "a\rb", "\x00",
    ]
)
SOURCES = st.lists(st.builds(str.__add__, LINES, st.sampled_from(["\n", "\n", "\n", "\r\n", ""])), max_size=7).map("".join) | st.text(max_size=20)
CELLS = st.lists(st.builds(cell, SOURCES, st.sampled_from(["code", "code", "code", "markdown", "raw"]), st.booleans()), max_size=6)
ANY = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


@ANY
@given(CELLS, st.sampled_from(list(STYLES.values())))
def test_migrate_of_nothing_changes_no_byte(cells, style):
    raw = json.dumps(document(*cells), **{**style, "ensure_ascii": True}).encode()
    made = read(PATH, NAME, raw)
    compile(made.text, NAME, "exec", flags=0x400 | 0x2000)  # an `ast`, and `await` anywhere
    assert dict(made.divided(made.text)) == {number: "".join(item["source"]) for number, item in enumerate(cells, 1) if item["cell_type"] == "code"}
    assert made.with_text(made.text).raw == raw
    assert made.as_written.with_text(made.as_written.text).raw == raw
    assert len(made.lines) == len(made.as_written.lines)


@ANY
@given(CELLS, st.sampled_from(list(STYLES.values())))
def test_an_edited_notebook_is_json_with_other_sources_only(cells, style):
    content = document(*cells)
    raw = json.dumps(content, **{**style, "ensure_ascii": True}).encode()
    change = migrated(raw)
    after = json.loads(change.after.raw)
    for item, other in zip(content["cells"], after["cells"], strict=True):
        assert type(item["source"]) is type(other["source"])
        if item["cell_type"] != "code":
            assert item == other
        other["source"] = item["source"]
    assert after == content
    if not change.refused:
        assert migrated(change.after.raw).after.raw == change.after.raw
        assert len(change.after.broken) == len(change.before.broken)


# -- commands in cells


@pytest.mark.parametrize(
    "before, after",
    [
        ("!pip install torch==1.9.0+cu111 -f https://download.pytorch.org/whl/torch_stable.html", "!pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*'"),
        ("%pip install torch --index-url https://download.pytorch.org/whl/cu118", "%pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*'"),
        ("!{sys.executable} -m pip install torch", "!{sys.executable} -m pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*'"),
        ("pip install torch -q", "pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*' -q"),
        ("try:\n    import torch\nexcept:\n    !pip install torch", "try:\n    import torch\nexcept:\n    !pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*'"),
        ("%%bash\npip install \\\n  torch \\\n  einops\n", "%%bash\npip install \\\n  'torch==2.9.*' \\\n  'torch_xla[tpu]==2.9.*' \\\n  einops\n"),
        ("%env CUDA_VISIBLE_DEVICES=0\nx = 1", "x = 1"),
        ("info = !nvidia-smi", "info = !tpu-info"),
        ("!pip install torch  # xlaport: ignore", "!pip install torch  # xlaport: ignore"),
        ("# !pip install torch==1.9.0+cu111\ns = '''\n!pip install torch\n'''", "# !pip install torch==1.9.0+cu111\ns = '''\n!pip install torch\n'''"),
    ],
)
def test_installs(before, after):
    assert ported(before, "y = 1") == [after, "y = 1"]


@pytest.mark.parametrize("line", ["%env CUDA_VISIBLE_DEVICES=0", "!conda install pytorch cudatoolkit=11.1", "!CUDA=1 pip install git+https://github.com/NVIDIA/apex"])
def test_commands_that_are_only_named(line):
    change = migrated(encoded(f"if True:\n    {line}"))
    assert change.after.raw == change.before.raw
    assert [f.located(change.after).location.shown for f in change.remaining][:1] == ["cell 1:2"]


# -- the commands, as they are used


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).write_bytes(encoded(cell("text", "markdown"), IMPORTS, f"%%time\n{DEVICE}\ntorch.cuda.empty_cache()", TRAIN, accelerator="GPU"))
    return tmp_path


def test_lint_names_cells(folder):
    out = lint(Path(NAME))
    assert f"{NAME}:cell 3:2:10: XP102 a CUDA device [" in out
    assert f"{NAME}:cell 4:8:11: XP501 " in out


def test_lint_in_json(folder):
    found = json.loads(lint(Path(NAME), "--json"))["findings"]
    idle = next(item for item in found if item["code"] == "XP121")
    assert (idle["cell"], idle["line"], idle["column"]) == (3, 3, 1)
    assert idle["fix"]["edits"] == [{"line": 3, "column": 1, "end_line": 3, "end_column": 25, "content": "", "cell": 3}] or idle["fix"]["edits"][0]["cell"] == 3


def test_lint_for_code_hosts(folder):
    """Lines of cells are not lines of the file."""
    assert f"file={NAME},line=1,endLine=1::{NAME}:cell 3:2:10: XP102" in lint(Path(NAME), "--output-format", "github")
    results = json.loads(lint(Path(NAME), "--output-format", "sarif"))["runs"][0]["results"]
    assert results[0]["message"]["text"].startswith("cell 3:2:10: ") and "fixes" not in results[0]
    assert results[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert f"`{NAME}:cell 3:2:10`" in lint(Path(NAME), "--output-format", "markdown")


def test_lint_diff_shows_cells_and_fix_writes_them(folder):
    before = (folder / NAME).read_bytes()
    status, out, _ = run("lint", NAME, "--diff", "--no-cache")
    assert status == 1 and out == program(f"""
        --- a/{NAME}:cell 3
        +++ b/{NAME}:cell 3
        @@ -1,3 +1,2 @@
         %%time
         {DEVICE}
        -torch.cuda.empty_cache()
        """)
    run("lint", NAME, "--fix", "--no-cache")
    assert sources((folder / NAME).read_bytes())[2] == f"%%time\n{DEVICE}"
    assert (folder / NAME).read_bytes().count(b"\n") == before.count(b"\n") - 1


def test_lint_from_stdin(folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((folder / NAME).read_bytes())))
    assert "nb.ipynb:cell 3:2:10: XP102" in run("lint", "-", "--stdin-filename", "nb.ipynb")[1]


def test_lint_remembers_and_takes_baselines(folder):
    first = run("lint", NAME)[1]
    assert run("lint", NAME)[1] == first
    run("lint", NAME, "--write-baseline", "known.json")
    assert run("lint", NAME, "--baseline", "known.json")[1].startswith("no findings")


def test_an_answer_that_is_kept_needs_no_analysis_of_a_notebook_that_is_named(folder):
    run("lint", NAME)
    script = f"import sys\nfrom xlaport import cli\ncli.main(['lint', {NAME!r}])\nprint(sorted(name for name in sys.modules if name.startswith('xlaport.analysis')))"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    assert "XP102" in done.stdout and done.stdout.endswith("[]\n")


def test_comments_that_suppress(folder):
    (folder / NAME).write_bytes(encoded(IMPORTS, "torch.cuda.empty_cache()  # xlaport: ignore[XP121]", "x = 1  # xlaport: ignore[XP501]"))
    out = lint(Path(NAME))
    assert "XP121 " not in out and f"{NAME}:cell 3:1:8: XP003" in out
    (folder / NAME).write_bytes(encoded(IMPORTS + "\n# xlaport: skip-file", "torch.cuda.empty_cache()"))
    assert lint(Path(NAME)).startswith("no findings")


def test_lint_reads_what_a_notebook_imports(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "helpers.py").write_text("import torch\n\ndef where():\n    return torch.device('cuda')\n")
    (folder / "sub" / NAME).write_bytes(encoded("from helpers import where\nimport torch", "net = torch.nn.Linear(1, 1).to(where())\nprint(net(x).item())"))
    gathered = __import__("xlaport.lint.gather", fromlist=["from_paths"]).from_paths([Path("sub") / NAME])
    assert [path.name for path in gathered.context] == ["helpers.py"]


def test_migrate_diff_report_and_second_run(folder):
    status, out, err = run("migrate", NAME, "--diff")
    assert status == 1 and f"--- a/{NAME}:cell 4\n" in out and '"source"' not in out and "xlaport-" not in out
    assert "choose a TPU there" in err and "still ask for a GPU" in err
    status, out, _ = run("migrate", NAME, "--report", "report.md")
    report = (folder / "report.md").read_text()
    assert status == 0 and f"`{NAME}:cell 3:2`" in report and "+device = xm.xla_device()" in report and "xlaport-" not in report
    assert f"| `{NAME}:cell 4:8` |" in report or f"`{NAME}:cell 4:8`" in report
    ported = (folder / NAME).read_bytes()
    assert run("migrate", NAME, "--check")[0] == 0
    assert (folder / NAME).read_bytes() == ported
    assert json.loads(ported)["metadata"] == {"accelerator": "GPU"}


def test_modules_beside_a_notebook_belong_to_its_program(folder):
    """The step is in a file that only the notebook imports, and the device in the notebook."""
    (folder / "engine.py").write_text("import torch\n\ndef train(net, optimizer, x):\n    net(x).backward()\n    optimizer.step()\n")
    (folder / NAME).write_bytes(encoded("import torch\nimport engine", DEVICE, "net = torch.nn.Linear(1, 1).to(device)\nfor x in data:\n    engine.train(net, opt, x.to(device))"))
    run("migrate", ".")
    assert "xm.optimizer_step" in (folder / "engine.py").read_text()


def test_no_note_where_no_host_is_named(folder):
    (folder / NAME).write_bytes(encoded(IMPORTS))
    assert "choose a TPU" not in run("migrate", NAME)[1]
