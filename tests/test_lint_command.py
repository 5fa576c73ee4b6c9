"""`xlaport lint` as a user runs it: output, exit status, selections, suppressions, fixes, standard input."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import program
from test_migrate_command import environment

from xlaport import cli, engine
from xlaport.ruleset import load
from xlaport.ruleset.examples import blocks_of

CUDA = "import torch\n\nx = torch.ones(1).cuda()\ntorch.cuda.empty_cache()\n"
CLEAN = "import torch\n\nx = torch.ones(1)\n"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(*arguments: object) -> int:
    return cli.main(["lint", *map(str, arguments)])


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def found(capsys, *arguments: object) -> list[dict]:
    """The findings of a run in JSON."""
    capsys.readouterr()
    run(*arguments, "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    return document["findings"]


def codes(capsys, *arguments: object) -> list[str]:
    return [item["code"] for item in found(capsys, *arguments)]


# -- output and exit status


def test_a_line_for_each_finding_and_a_summary(here, capsys):
    write(here, src__train=CUDA, src__model=CLEAN)
    assert run("src") == 1
    assert lines(capsys) == [
        "src/train.py:3:5: XP104 moves to a CUDA device [rule: xlaport rule XP104] Fix available (xlaport migrate)",
        "src/train.py:4:1: XP121 the CUDA allocator has no cache to empty on a TPU [rule: xlaport rule XP121] Fix available",
        "2 findings in 2 files (1 error, 1 note); fixable: 1 with --fix, 1 with xlaport migrate",
    ]


def test_the_working_directory_is_the_default(here, capsys):
    write(here, train=CUDA)
    run()
    assert lines(capsys)[0].startswith("train.py:3:5: XP104 ")


def test_files_outside_the_working_directory_have_absolute_names(here, capsys, tmp_path):
    write(tmp_path, train=CUDA)
    assert found(capsys, tmp_path / "train.py")[0]["file"] == (tmp_path / "train.py").as_posix()


@pytest.mark.parametrize("text, status", [(CLEAN, 0), ("import torch\ntorch.cuda.empty_cache()\n", 0), (CUDA, 1), ("def f(:\n", 1), ("", 0)])
def test_exit_status(here, text, status):
    write(here, train=text)
    assert run("train.py") == status
    assert run("train.py", "--exit-zero") == 0


def test_nothing_to_look_at_is_clean(here, capsys):
    assert run(".") == 0
    assert lines(capsys) == ["no findings in 0 files"]


@pytest.mark.parametrize("arguments", [["nowhere.py"], ["--select", "XP999"], ["--ignore", "nonsense"], ["--baseline", "none.json"], ["--python-rules", "none"]])
def test_what_cannot_be_done_is_one_line(here, capsys, arguments):
    write(here, train=CUDA)
    assert run(*arguments, "--exit-zero") == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("xlaport: ") and said.err.count("\n") == 1


@pytest.mark.parametrize("raw", [b"x = (\n", b"# coding: utf-8\nx = '\xff'\n", b"print 'torch'\n"])
def test_a_file_that_does_not_parse_is_a_finding(here, capsys, raw):
    """Also one that says nothing of torch, so that silence means clean."""
    (here / "train.py").write_bytes(raw)
    write(here, a=CLEAN, z=CUDA)
    assert codes(capsys, ".") == ["XP001", "XP104", "XP121"]


def test_a_rule_that_fails_is_a_finding(here, capsys, monkeypatch):
    monkeypatch.setattr(engine, "RAISE_RULE_ERRORS", False)
    monkeypatch.setattr(engine.match, "matches", lambda *_: iter([1 / 0] for _ in [0]))
    write(here, train=CUDA)
    assert "XP002" in codes(capsys, "train.py", "--no-cache")


def test_files_named_by_the_user_are_read_whatever_their_suffix(here, capsys):
    (here / "train").write_text(CUDA)
    assert codes(capsys, ".") == []
    assert codes(capsys, "train") == ["XP104", "XP121"]


def test_a_named_link_is_not_passed_over_in_silence(here, capsys):
    write(here, train=CUDA)
    (here / "link.py").symlink_to("train.py")
    run("link.py")
    assert "note: link.py was not looked at: linked in the tree: edit what it points to" in lines(capsys)


@pytest.mark.parametrize("arguments", [["src"], ["src", "--statistics"], ["src", "--output-format", "github"], ["src", "--diff"]])
def test_output_into_a_pipe_imports_neither_torch_nor_libcst_nor_rich(here, arguments):
    write(here, src__train=CLEAN + "print(x.cuda())\n")
    script = "import sys\nfrom xlaport import cli\ncli.main(sys.argv[1:])\nprint({'torch', 'libcst', 'rich', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script, "lint", *arguments], capture_output=True, text=True, env=environment(), cwd=here, check=True)
    assert done.stdout.endswith("set()\n") and done.stderr == ""
    assert "XP104" in done.stdout or "--diff" in arguments


def test_names_with_line_breaks_stay_on_their_line(here, capsys):
    (here / "a\nb.py").write_text(CUDA)
    run(".")
    assert lines(capsys)[0].startswith("a\\nb.py:3:5: ")


def test_statistics(here, capsys):
    write(here, a=CUDA, b=CUDA + "y = x.cuda()\n")
    assert run("--statistics") == 1
    assert lines(capsys)[:2] == ["      3  XP104  cuda-method", "      2  XP121  cuda-cache-call"]
    run("--statistics", "--json")
    assert json.loads(capsys.readouterr().out)["statistics"][0] == {"code": "XP104", "name": "cuda-method", "count": 3}


# -- what is reported


def test_select_and_ignore(here, capsys):
    write(here, train=CUDA)
    assert codes(capsys, "--select", "XP12,XP6") == ["XP121"]
    assert codes(capsys, "--select", "xp1", "--ignore", "XP104") == ["XP121"]
    assert run("--ignore", "XP1") == 0


def test_names_that_only_say_cuda_are_for_the_report_of_a_migration(here, capsys):
    write(here, train="import torch\n\nuse_cuda = False\n")
    assert codes(capsys) == []


def test_settings_of_the_project(here, capsys):
    write(here, src__train=CUDA, src__old__train=CUDA, tests__test_train=CUDA)
    (here / "pyproject.toml").write_text('[tool.xlaport]\nexclude = ["src/old"]\n[tool.xlaport.per-file-ignores]\ntests = ["XP104"]\n"src/*.py" = ["XP12"]\n')
    assert [(item["file"], item["code"]) for item in found(capsys)] == [("src/train.py", "XP104"), ("tests/test_train.py", "XP121")]
    assert codes(capsys, "src/old/train.py", "tests/test_train.py") == ["XP121"]


@pytest.mark.parametrize(
    "table, said",
    [
        ('per-file-ignores = ["XP1"]', "per-file-ignores is a table of patterns with lists of codes"),
        ('per-file-ignores = {tests = "XP1"}', "per-file-ignores is a table"),
        ('per-file-ignores = {tests = ["XP777"]}', "no rule starts with 'XP777'"),
        ('extend-rules = "rules"', "extend-rules is a list of strings"),
        ('extend-rules = ["rules"]', "no rule page there"),
    ],
)
def test_bad_settings(here, capsys, table, said):
    (here / "pyproject.toml").write_text(f"[tool.xlaport]\n{table}\n")
    assert run() == 2
    assert said in capsys.readouterr().err


# -- what a named file imports


NET = "import torch\n\nnet = torch.nn.Linear(1, 1).to('xla')\n"
STEP = program("""
    import torch
    from pkg.net import net

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in range(3):
        net(x).backward()
        optimizer.step()
    """)
"""Whether its step needs an end depends on the device that another file names."""


@pytest.mark.parametrize("named", ["pkg/train.py", "pkg"])
@pytest.mark.parametrize("home", ["", "[tool.xlaport]\n", ".git"])
def test_a_file_is_seen_with_what_it_imports(here, capsys, named, home):
    """The verdict on a file does not depend on whether it or its folder is named, as far as imports tell."""
    write(here, pkg__net=NET, pkg__train=STEP)
    (here / "pkg" / "__init__.py").touch()
    if home == ".git":
        subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    elif home:
        (here / "pyproject.toml").write_text(home)
    assert codes(capsys, named, "--select", "XP201") == ["XP201"]
    write(here, pkg__net=NET.replace(".to('xla')", ""))
    assert codes(capsys, named, "--select", "XP201") == []


def test_what_is_imported_is_not_reported_itself(here, capsys):
    write(here, net=CUDA, train="from net import x\nimport missing, net\nfrom . import nothing\n")
    assert codes(capsys, "train.py") == []
    run("train.py", "--fix")
    assert (here / "net.py").read_text() == CUDA


# -- comments


@pytest.mark.parametrize(
    "comment, expected",
    [
        ("# xlaport: ignore[XP104]", []),
        ("# xlaport: ignore", []),
        ("# noqa # xlaport: ignore[XP104, XP121]", ["XP003"]),
        ("# xlaport: ignore[XP1]", ["XP104", "XP003"]),
        ("# xlaport: ignore[XP121]", ["XP104", "XP003"]),
        ("# xlaport: ignore[XP104, OURS1]", []),
        ("# xlaport: skip-file", []),
    ],
)
def test_comments(here, capsys, comment, expected):
    write(here, train=f"import torch\nx = torch.ones(1).cuda()  {comment}\n")
    assert codes(capsys) == expected


def test_a_comment_is_used_by_what_is_not_selected(here, capsys):
    write(here, train="import torch\nx = torch.ones(1).cuda()  # xlaport: ignore[XP104]\n")
    assert codes(capsys, "--select", "XP0,XP6") == []


def test_comments_of_a_file_that_does_not_parse_are_not_judged(here, capsys):
    write(here, train="import torch\nx = 1  # xlaport: ignore[XP104]\nx = (\n\n")
    assert codes(capsys) == ["XP001"]


@pytest.mark.parametrize(
    "line, fixed",
    [
        ("x = 1  # xlaport: ignore[XP104]", "x = 1"),
        ("x = 1  # xlaport: ignore[XP104] as we know", "x = 1"),
        ("x = 1  # xlaport: ignore[XP104]  # noqa", "x = 1  # noqa"),
        ("x = 1  # noqa  # xlaport: ignore", "x = 1  # noqa"),
        ("x = 'ü'  # xlaport: ignore", "x = 'ü'"),
        ("# xlaport: ignore[XP104]", None),
        ("x = y.cuda()  # xlaport: ignore[XP104, XP501] reason", "x = y.cuda()  # xlaport: ignore[XP104] reason"),
        ("x = '# xlaport: ignore[XP104]'", "x = '# xlaport: ignore[XP104]'"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_unused_comments_are_removed(here, line, fixed, end):
    head = f"import torch{end}y = torch.ones(1){end}"
    (here / "train.py").write_bytes(f"{head}{line}{end}z = 1{end}".encode())
    run("--fix")
    assert (here / "train.py").read_bytes().decode() == head + ("" if fixed is None else fixed + end) + f"z = 1{end}"


TOOL_PAGES = [rule.path for rule in load.builtin() if rule.area == "tool" and list(blocks_of(rule.path))]


@pytest.mark.parametrize("page", TOOL_PAGES, ids=lambda page: page.stem)
def test_examples_of_pages_on_the_tool(here, capsys, page):
    code = load.load(page).code
    fixed = None
    for block in blocks_of(page):
        if block.kind == "after":
            assert fixed == block.text
            continue
        write(here, train=block.text)
        marked = {item["line"] for item in found(capsys, "train.py", "--select", "XP0") if item["code"] == code}
        assert marked == block.marked(code)
        run("train.py", "--fix", "--select", "XP0")
        fixed = (here / "train.py").read_text()


# -- fixes


def test_fix_applies_safe_fixes_and_reports_the_rest(here, capsys):
    write(here, train=CUDA)
    assert run("--fix") == 1
    assert (here / "train.py").read_text() == "import torch\n\nx = torch.ones(1).cuda()\n"
    assert lines(capsys)[1:] == ["note: 1 finding fixed in 1 file", "1 finding in 1 file (1 error); fixable: 1 with xlaport migrate"]


def test_fix_never_makes_part_of_a_port(here):
    """Edits of a group only make sense together, and are `migrate`'s, as are those that a port requires."""
    text = program("""
        import torch

        torch.manual_seed(0)
        net = torch.nn.Linear(1, 1).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in range(3):
            optimizer.zero_grad()
            net(torch.ones(1, 1).cuda()).mean().backward()
            optimizer.step()
        """)
    write(here, train=text)
    run("--fix", "--unsafe-fixes")
    assert (here / "train.py").read_text() == text


def test_unsafe_fixes_are_asked_for(here, capsys):
    page = next(rule.path for rule in load.builtin() if rule.code == "XP803")
    write(here, train=next(block.text for block in blocks_of(page) if block.kind == "before"))
    before = (here / "train.py").read_text()
    assert [item["fix"]["applicability"] for item in found(capsys, "--select", "XP803") if item["fix"]][:1] == ["unsafe"]
    run("--fix", "--select", "XP803")
    assert (here / "train.py").read_text() == before
    run("--fix", "--unsafe-fixes", "--select", "XP803")
    assert "drop_last=True" in (here / "train.py").read_text()


def test_fix_leaves_what_is_not_reported(here):
    write(here, a=CUDA, b=CUDA, c=CUDA.replace("cache()", "cache()  # xlaport: ignore[XP121]"))
    (here / "pyproject.toml").write_text('[tool.xlaport.per-file-ignores]\n"a.py" = ["XP121"]\n')
    run("--fix")
    kept = {path.stem for path in here.glob("*.py") if "empty_cache" in path.read_text()}
    assert kept == {"a", "c"}


def test_fix_leaves_what_is_in_the_baseline(here):
    write(here, a=CUDA)
    run("--write-baseline")
    assert run("--baseline", "xlaport-baseline.json", "--fix") == 0
    assert (here / "a.py").read_text() == CUDA


def test_diff_of_a_file_elsewhere_is_a_patch_too(here, capsys):
    write(here.parent / "elsewhere", a=CUDA)
    assert run("--diff", here.parent / "elsewhere") == 1
    path = (here.parent / "elsewhere" / "a.py").as_posix()
    assert capsys.readouterr().out.startswith(f"--- a{path}\n+++ b{path}\n")


def test_diff_is_a_patch_and_writes_nothing(here, capsys):
    write(here, train=CUDA, clean=CLEAN)
    assert run("--diff") == 1
    patch = capsys.readouterr().out
    assert (here / "train.py").read_text() == CUDA
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=here, check=True)
    assert (here / "train.py").read_text() == "import torch\n\nx = torch.ones(1).cuda()\n"
    assert run("--diff") == 0
    assert capsys.readouterr().out == ""


def test_edits_of_json_are_what_fix_does(here, capsys):
    text = "import torch\r\nx = 'é'; torch.cuda.empty_cache()\r\ny = 1  # xlaport: ignore\r\n"
    (here / "train.py").write_bytes(text.encode())
    edits = [edit for item in found(capsys) for edit in item["fix"]["edits"]]
    run("--fix")
    assert edited(text, edits) == (here / "train.py").read_bytes().decode() == "import torch\r\nx = 'é'\r\ny = 1\r\n"


def edited(text: str, edits: list[dict]) -> str:
    starts = [0, *(found.end() for found in re.finditer("\r\n|\r|\n", text))]
    for edit in sorted(edits, key=lambda edit: (edit["line"], edit["column"]), reverse=True):
        first = starts[edit["line"] - 1] + edit["column"] - 1
        last = starts[edit["end_line"] - 1] + edit["end_column"] - 1
        text = text[:first] + edit["content"] + text[last:]
    return text


def test_a_file_that_cannot_be_rewritten_is_named(here, capsys):
    (here / "train.py").write_bytes(b"import torch\n\x0c\ntorch.cuda.empty_cache()\n\x0cx = 1\n")
    assert run("--fix") in (0, 2)
    assert "train.py" in "".join(capsys.readouterr())


# -- standard input


def from_stdin(monkeypatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_stdin(here, capsys, monkeypatch):
    (here / "pyproject.toml").write_text('[tool.xlaport.per-file-ignores]\n"src" = ["XP121"]\n')
    from_stdin(monkeypatch, CUDA)
    assert [(item["file"], item["code"]) for item in found(capsys, "-", "--stdin-filename", "src/train.py")] == [("src/train.py", "XP104")]


def test_stdin_is_fixed_to_stdout(here, capsys, monkeypatch):
    from_stdin(monkeypatch, CUDA)
    process = subprocess.run(
        [sys.executable, "-m", "xlaport", "lint", "-", "--fix"], input=CUDA.encode(), capture_output=True, env=environment(), cwd=here, check=False,
    )
    assert process.stdout.decode() == "import torch\n\nx = torch.ones(1).cuda()\n"
    assert process.returncode == 1 and b"stdin.py:3:5: XP104" in process.stderr


def test_stdin_stands_alone(here, capsys):
    assert run("-", "train.py") == 2


# -- baseline


def test_a_baseline_survives_lines_that_move(here, capsys):
    write(here, train=CUDA)
    assert run("--write-baseline", "accepted.json") == 0
    write(here, train="# a\n# b\n" + CUDA + "y = x.cuda()\n")
    assert [item["line"] for item in found(capsys, "--baseline", "accepted.json")] == [7]


def test_a_baseline_counts_lines_that_are_alike(here, capsys):
    write(here, train="import torch\nx.cuda()\nx.cuda()\n")
    run("--write-baseline")
    write(here, train="import torch\nx.cuda()\nx.cuda()\nx.cuda()\n")
    assert [item["line"] for item in found(capsys, "--baseline", "xlaport-baseline.json")] == [4]


def test_what_vanished_from_a_baseline_is_counted(here, capsys):
    write(here, a=CUDA, b=CUDA, sub__c=CUDA)
    run("--write-baseline", "sub/accepted.json")
    write(here, a=CLEAN)
    (here / "b.py").unlink()
    capsys.readouterr()
    assert run("--baseline", "sub/accepted.json") == 0
    assert lines(capsys) == ["note: 4 entries of the baseline no longer found: write it again", "no findings in 2 files"]
    assert run("sub/c.py", "--baseline", "sub/accepted.json") == 0
    assert "note: 2 entries" in lines(capsys)[0]  # those of the file that is gone


def test_a_baseline_is_read_from_any_folder(here, capsys, monkeypatch):
    write(here, src__train=CUDA)
    run("--write-baseline", "accepted.json")
    monkeypatch.chdir(here / "src")
    assert run("--baseline", "../accepted.json") == 0


@pytest.mark.parametrize("text", ["", "[]", '{"findings": [1]}', '{"findings": [{"file": "a"}]}'])
def test_a_bad_baseline_is_refused(here, capsys, text):
    write(here, train=CUDA)
    (here / "accepted.json").write_text(text)
    assert run("--baseline", "accepted.json") == 2
    assert "not a baseline" in capsys.readouterr().err


def test_a_folder_after_write_baseline_is_no_file(here, capsys):
    write(here, src__train=CUDA)
    assert run("--write-baseline", "src") == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("lint", "train.py"), ("migrate", "train.py", "--diff"), ("rule", "XP001")])
def test_an_output_that_cannot_be_written_is_one_sentence_and_no_finding(here, arguments, unbuffered):
    write(here, train=CUDA)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "xlaport", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=environment() | {"PYTHONUNBUFFERED": unbuffered}, cwd=here
        )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == "xlaport: the output cannot be written: no space left on device" and "Traceback" not in done.stderr
        assert subprocess.run([sys.executable, "-m", "xlaport", *arguments], stdout=full, stderr=full, env=environment(), cwd=here).returncode == 2


def test_a_closed_output_leaves_the_status(here):
    write(here, train=CUDA)
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(f"{sys.executable} -m xlaport lint train.py {closed}", shell=True, capture_output=True, text=True, env=environment(), cwd=here)
        assert (done.returncode, done.stderr) == (1, "")
