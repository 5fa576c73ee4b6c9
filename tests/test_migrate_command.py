"""`xlaport migrate` as a user runs it: outputs, selections, exit codes, and input that is bad."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import program

import xlaport
from xlaport import cli, engine, files, projectfiles
from xlaport.commands import migrate
from xlaport.errors import NotRewritable
from xlaport.findings import Grade
from xlaport.rewrite import apply
from xlaport.ruleset import load
from xlaport.ruleset.examples import blocks_of

CUDA = program("""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in range(3):
        optimizer.zero_grad()
        net(torch.ones(1, 1).cuda()).mean().backward()
        optimizer.step()
    """)
PORTED = program("""
    import torch
    import torch_xla.core.xla_model as xm

    device = xm.xla_device()
    net = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in range(3):
        optimizer.zero_grad()
        net(torch.ones(1, 1).to(xm.xla_device())).mean().backward()
        xm.optimizer_step(optimizer, barrier=True)
    """)
CLEAN = "import torch\nx = torch.ones(1)\n"
MANUAL = "import torch\nnet = torch.nn.DataParallel(net)\n"
XM = b"import torch_xla.core.xla_model as xm\n"


@pytest.fixture
def src(tmp_path) -> Path:
    """A small project: one file to port, one that is clean, one that is no Python."""
    folder = tmp_path / "src"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text(CUDA)
    (folder / "pkg" / "clean.py").write_text(CLEAN)
    (folder / "notes.txt").write_text("cuda\n")
    return folder


def run(*arguments: object) -> int:
    return cli.main(["migrate", *map(str, arguments)])


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts}


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", "-c", "core.autocrlf=false", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def environment(**more: str) -> dict[str, str]:
    root = str(Path(xlaport.__file__).parents[1])
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1", **more}


def start(*arguments: object, code: str = "", **options) -> subprocess.Popen:
    """The command in a process of its own; `code` runs before it."""
    script = f"import sys\nfrom xlaport import cli\n{code}\nsys.exit(cli.main(sys.argv[1:]))"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(), **options}
    return subprocess.Popen([sys.executable, "-c", script, "migrate", *map(str, arguments)], **options)


# -- where the result goes


def test_in_place(src, capsys):
    before = tree(src)
    assert run(src) == 0
    assert tree(src) == {**before, "train.py": PORTED.encode()}
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["files: 1 changed, 1 clean, 0 skipped, 0 failed", "4 CUDA idioms found, 4 converted, 0 left for you"]


def test_a_second_run_changes_nothing(src, capsys):
    run(src)
    once = tree(src)
    assert run(src) == 0
    assert tree(src) == once
    assert run(src, "--check") == 0


def test_diff_is_the_patch_of_what_would_be_written(src, capsys, tmp_path):
    before = tree(src)
    assert run(src, "--diff") == 1
    patch = capsys.readouterr()
    assert tree(src) == before
    assert "4 converted" in patch.err
    copy = tmp_path / "copy"
    shutil.copytree(src, copy)
    git_apply(copy, patch.out.encode())
    assert run(src) == 0
    assert tree(copy) == tree(src)


def git_apply(folder: Path, patch: bytes) -> None:
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=patch, capture_output=True, env=environment(GIT_DIR="/nonexistent"))
    assert done.returncode == 0, done.stderr


ODD = {
    "no final newline": b"import torch\nx.cuda()",
    "CRLF": b"import torch\r\nx.cuda()\r\n",
    "BOM": b"\xef\xbb\xbfimport torch\nx.cuda()\n",
    "latin-1": "# coding: latin-1\nimport torch\nname = 'é'\nx.cuda()  # ü\n".encode("latin-1"),
    "line separators in a text": "import torch\nname = 'a\u2028b\x0cc\x1ed'  # \x85\nx.cuda()\n".encode(),
    "tabs": b"import torch\nif y:\n\tx.cuda()\n",
}


@pytest.mark.parametrize("raw", ODD.values(), ids=ODD)
def test_the_patch_of_an_odd_file_applies(raw, tmp_path, capsysbinary):
    folder, copy = tmp_path / "a", tmp_path / "b"
    for place in (folder, copy):
        place.mkdir()
        (place / "odd näme.py").write_bytes(raw)
    assert run(folder, "--diff") == 1
    git_apply(copy, capsysbinary.readouterr().out)
    assert run(folder) == 0
    assert tree(copy) == tree(folder) != {"odd näme.py": raw}


def test_check_lists_the_files_that_would_change(src, capsys):
    before = tree(src)
    assert run(src, "--check") == 1
    assert capsys.readouterr().out == "would change train.py\n"
    assert tree(src) == before


def test_out_leaves_the_source_alone(src, capsys, tmp_path):
    (src / "run.sh").write_text("#!/bin/sh\npython train.py\n")
    (src / "run.sh").chmod(0o755)
    (src / "big.py").write_bytes(b"data = [\n" + b"0,\n" * 1_000_000 + b"]\n")
    (src / "weights.bin").write_bytes(bytes(range(256)))
    (src / "latest.py").symlink_to("train.py")
    (src / "outside").symlink_to(tmp_path / "elsewhere")
    before = tree(src)
    out = tmp_path / "port" / "deep"
    assert run(src, "--out", out) == 0
    assert tree(src) == before
    assert tree(out) == {**before, "train.py": PORTED.encode(), "latest.py": PORTED.encode()}
    assert (out / "latest.py").is_symlink()
    assert not os.path.lexists(out / "outside")
    assert os.access(out / "run.sh", os.X_OK)


def test_out_below_the_source_does_not_copy_itself(src, capsys):
    assert run(src, "--out", src / "port") == 0
    first = tree(src)
    assert run(src, "--out", src / "port") == 0
    assert tree(src) == first


def test_out_may_not_be_the_source(src, capsys):
    assert run(src, "--out", src) == 2
    assert "choose another" in capsys.readouterr().err


def test_out_that_cannot_be_made(src, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert run(src, "--out", tmp_path / "file") == 2
    assert one_error_line(capsys.readouterr().err)


def one_error_line(text: str) -> bool:
    return re.fullmatch(r"xlaport: [^\n]+\n", text) is not None


def test_report(src, capsys, tmp_path):
    report = tmp_path / "migration.md"
    (src / "manual.py").write_text(MANUAL)
    assert run(src, "--report", report) == 0
    text = report.read_text()
    assert "5 CUDA idioms found, 4 converted, 1 left for you" in text
    assert "XP201" in text and "manual.py:2" in text and "`torch.ones`" in text
    assert "torch==2.9.*" in text


ODD_LINES = "import torch\n\x0c\nname = 'a\u2028b\x0bc\x1ed'  # \x85\n"


def test_lines_are_those_of_an_editor_where_a_text_has_other_separators(tmp_path, capsys):
    """A removed import goes in a later pass than its use; its line is that of the file as it was."""
    text = f"{ODD_LINES}from torch.cuda import empty_cache\ny = 1\nx.cuda()\nempty_cache()\nnet = torch.nn.DataParallel(net)\n"
    (tmp_path / "a.py").write_text(text)
    assert run(tmp_path, "--report", tmp_path / "r.md") == 0
    report = (tmp_path / "r.md").read_text()
    shown = dict(re.findall(r"^`a.py:(\d+)`\n\n```diff\n(.*?)\n```$", report, re.MULTILINE | re.DOTALL))
    assert shown["4"] == "-from torch.cuda import empty_cache\n+import torch_xla.core.xla_model as xm"
    assert shown["6"] == "-x.cuda()\n-empty_cache()\n+x.to(xm.xla_device())"
    assert "| `a.py:7` | " in report, "what is left has lines of the file as it is now"


def test_a_comment_is_read_on_its_line_where_a_text_has_other_separators(tmp_path, capsys):
    text = ODD_LINES + "from torch import cuda  # noqa\nx.cuda()  # xlaport: ignore\n"
    settings = "# \x0c \u2028\nNCCL_DEBUG=INFO python x.py  # xlaport: ignore\n"
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "run.sh").write_text(settings)
    assert run(tmp_path) == 0
    assert (tmp_path / "a.py").read_text() == text
    assert (tmp_path / "run.sh").read_text() == settings


STEPS = """\
import torch


def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = torch.logdet(model(x.to("cuda")))
        loss.backward()
        optimizer.step()
        total += loss.item()
        print(loss.item())  # xlaport: ignore[XP501]
    return total
"""


def test_report_says_where_the_steps_of_the_port_wait(tmp_path, capsys):
    (tmp_path / "train.py").write_text(STEPS)
    assert run(tmp_path, "--report", tmp_path / "r.md") == 0
    port, report = (tmp_path / "train.py").read_text().splitlines(), (tmp_path / "r.md").read_text()
    section = report.partition("## Where steps wait, or compile again\n")[2].partition("\n## ")[0]
    line = 1 + next(number for number, text in enumerate(port) if "total +=" in text)
    assert f"`train.py:{line}`" in section
    assert section.count("`train.py:") == 1  # neither the suppressed line nor what is wrong rather than slow
    assert "XP979" not in section and "XP979" in report


NORMS = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
torch.manual_seed(dist.get_rank())


def build(args, model, rank):
    if args.sync:
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model.train()
    if args.distributed:
        return DDP(model.cuda(), device_ids=[rank])
    return torch.nn.DataParallel(model).cuda()
"""


def test_report_says_what_plain_batch_norm_changes_with_replicas(tmp_path, capsys):
    (tmp_path / "train.py").write_text(NORMS)
    assert run(tmp_path, "--report", tmp_path / "r.md") == 0
    port, report = (tmp_path / "train.py").read_text().splitlines(), (tmp_path / "r.md").read_text()
    assert "convert_sync" not in "".join(port)
    plan, left = (report.partition(f"\n## {title}")[2].partition("\n## ")[0] for title in ("Distributed plan", "What is left for you"))
    assert "| wrapper | DDP | one process a chip" in plan and "| batch norm | SyncBatchNorm |" in plan
    line = left.partition("XP709")[0].splitlines()[-1]
    assert "SyncBatchNorm is off" in line and "model.train()" in "".join(port[int(line.partition(":")[2].partition("`")[0]) - 2:][:3])


CHOOSES = """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model, args, rank):
    if args.copies:
        return DDP(model.cuda(), device_ids=[rank])
    precision = MixedPrecision(param_dtype=torch.bfloat16) if args.low else None
    model = FSDP(model, mixed_precision=precision)
    return model


def whole(model):
    precision = MixedPrecision(param_dtype=torch.float32)
    model = FSDP(model, mixed_precision=precision)
    return model
"""


@pytest.mark.parametrize("options", [(), ("--runtime-library",)], ids=["written out", "library"])
def test_plan_of_a_program_that_chooses_its_wrapper(tmp_path, capsys, options):
    (tmp_path / "train.py").write_text(CHOOSES)
    assert run(tmp_path, "--report", tmp_path / "r.md", *options) == 0
    port, report = (tmp_path / "train.py").read_text(), (tmp_path / "r.md").read_text()
    assert port.count("use_spmd()") == 1 and port.count("set_global_mesh(") == (0 if options else 1)
    rows = [line for line in report.splitlines() if line.startswith(("| wrapper", "| precision"))]
    assert [row.split(" | ")[1] for row in rows[::2]] == ["FSDP", "FSDP", "DDP"]
    made, kept = rows[1].split(" | ")[-1], rows[3].split(" | ")[-1]
    assert made.startswith("bfloat16 where the program asks for it" if options else "float32; torch.autocast") and kept == "as it was |"


def test_report_of_a_run_that_writes_nothing_else(src, capsys, tmp_path):
    before = tree(src)
    assert run(src, "--check", "--report", tmp_path / "r.md") == 1
    assert tree(src) == before
    assert "XP201" in (tmp_path / "r.md").read_text()


def test_report_that_cannot_be_written(src, capsys, tmp_path, monkeypatch):
    """Nothing is edited then: the user shall have both."""
    before = tree(src)
    (tmp_path / "file").write_text("")
    for report in (tmp_path / "no" / "r.md", tmp_path, tmp_path / "file" / "r.md"):
        assert run(src, "--report", report) == 2
        assert one_error_line(capsys.readouterr().err)
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    assert run(src, "--report", tmp_path / "r.md") == 2
    assert capsys.readouterr().err == f"xlaport: {tmp_path / 'r.md'}: cannot be written: permission denied\n"
    assert tree(src) == before


def test_report_into_the_port(src, capsys, tmp_path):
    assert run(src, "--out", tmp_path / "port", "--report", tmp_path / "port" / "docs" / "r.md") == 0
    assert "# Migration to TPU" in (tmp_path / "port" / "docs" / "r.md").read_text()


def test_report_through_a_link_and_into_a_pipe(src, capsys, tmp_path):
    (tmp_path / "link.md").symlink_to("r.md")
    assert run(src, "--check", "--report", tmp_path / "link.md") == 1
    assert (tmp_path / "link.md").is_symlink()
    assert "# Migration to TPU" in (tmp_path / "r.md").read_text()
    with start(src, "--check", "--report", "/dev/stdout") as process:
        out, error = process.communicate()
    assert process.returncode == 1 and b"# Migration to TPU" in out, error


def test_one_output_at_a_time(src, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(src, "--diff", "--check")
    assert stopped.value.code == 2


# -- what is looked at


def test_a_single_file(src, capsys):
    before = tree(src)
    assert run(src / "train.py") == 0
    assert tree(src) == {**before, "train.py": PORTED.encode()}
    assert "files: 1 changed, 0 clean" in capsys.readouterr().out


def test_a_relative_path(src, capsys, monkeypatch):
    monkeypatch.chdir(src / "pkg")
    assert run("..", "--check") == 1
    assert capsys.readouterr().out == "would change train.py\n"


def test_several_paths_are_one_project(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "one.py").write_text("import torch\nx.cuda()\n")
    (tmp_path / "b" / "two.py").write_text("import torch\ny.cuda()\n")
    (tmp_path / "c.py").write_text("import torch\nz.cuda()\n")
    assert run(tmp_path / "a", tmp_path / "b" / "two.py", tmp_path / "b", "--check") == 1
    assert capsys.readouterr().out == "would change a/one.py\nwould change b/two.py\n"


def test_a_path_that_does_not_exist(src, capsys):
    assert run(src, src / "none") == 2
    assert one_error_line(capsys.readouterr().err)
    assert (src / "train.py").read_text() == CUDA


def test_an_empty_folder(tmp_path, capsys):
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    assert "files: 0 changed, 0 clean, 0 skipped, 0 failed" in out
    assert "is this the right folder?" in out


def test_a_folder_without_torch(tmp_path, capsys):
    (tmp_path / "a.py").write_text("print('hello')\n")
    assert run(tmp_path) == 0
    assert "is this the right folder?" in capsys.readouterr().out


@pytest.mark.parametrize("name", [".venv", "node_modules", "__pycache__", ".git"])
def test_folders_that_are_not_the_users_code(src, capsys, name):
    (src / name).mkdir()
    (src / name / "other.py").write_text(CUDA)
    assert run(src) == 0
    assert (src / name / "other.py").read_text() == CUDA


def test_a_virtual_environment_under_another_name(src, capsys):
    (src / "env").mkdir()
    (src / "env" / "pyvenv.cfg").write_text("")
    (src / "env" / "other.py").write_text(CUDA)
    run(src)
    assert (src / "env" / "other.py").read_text() == CUDA


def test_files_git_ignores_are_left(src, capsys):
    git(src, "init", "-q")
    (src / ".gitignore").write_text("build/\n")
    (src / "build").mkdir()
    (src / "build" / "copy.py").write_text(CUDA)
    assert run(src) == 0
    assert (src / "build" / "copy.py").read_text() == CUDA
    assert (src / "train.py").read_text() == PORTED
    assert run(src / "build") == 0, "an ignored folder that is named is meant"
    assert (src / "build" / "copy.py").read_text() == PORTED


# -- what is selected


GRADES = program("""
    import torch
    torch.cuda.empty_cache()
    scaler = torch.cuda.amp.GradScaler()
    x = torch.zeros(4)
    """)


def test_safe_only_leaves_required_edits(tmp_path, capsys):
    (tmp_path / "a.py").write_text(GRADES)
    assert run(tmp_path, "--safe-only") == 0
    assert (tmp_path / "a.py").read_text() == GRADES.replace("torch.cuda.empty_cache()\n", "")


def unsafe_rule() -> str:
    """A rule whose edits are unsafe, and a text it finds: any will do."""
    rule = next(rule for rule in load.builtin() if rule.grade is Grade.UNSAFE)
    return next(block.text for block in blocks_of(rule.path) if block.kind == "before")


def test_unsafe_fixes_are_asked_for(tmp_path, capsys):
    (tmp_path / "a.py").write_text(unsafe_rule())
    run(tmp_path, "--out", tmp_path / "plain")
    assert "unsafe)" not in capsys.readouterr().out
    run(tmp_path, "--out", tmp_path / "unsafe", "--unsafe-fixes")
    assert re.search(r"\([1-9]\d* unsafe\)", capsys.readouterr().out)
    assert (tmp_path / "plain" / "a.py").read_text() != (tmp_path / "unsafe" / "a.py").read_text()


SIMPLE = "import torch\ntorch.cuda.empty_cache()\nprint(torch.cuda.device_count())\n"


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--select", "XP121"], "import torch\nprint(torch.cuda.device_count())\n"),
        (["--select", "xp121, XP109"], "import torch\nimport torch_xla\nprint(torch_xla.device_count())\n"),
        (["--ignore", "XP121"], "import torch\nimport torch_xla\ntorch.cuda.empty_cache()\nprint(torch_xla.device_count())\n"),
        (["--select", "XP1", "--ignore", "XP10"], "import torch\nprint(torch.cuda.device_count())\n"),
        (["--select", "XP2"], SIMPLE),
    ],
)
def test_select_and_ignore(tmp_path, capsys, options, expected):
    (tmp_path / "a.py").write_text(SIMPLE)
    assert run(tmp_path, *options) == 0
    assert (tmp_path / "a.py").read_text() == expected


def test_a_code_that_selects_nothing(src, capsys):
    assert run(src, "--select", "XQ1") == 2
    assert "XQ1" in capsys.readouterr().err
    assert run(src, "--ignore", "XP1,nonsense") == 2


def test_a_selection_that_splits_a_program_holds_all_of_it_back(src, capsys):
    (src / "train.py").write_text(CUDA + "torch.cuda.empty_cache()\n")
    assert run(src, "--ignore", "XP201") == 0
    out = capsys.readouterr().out
    assert (src / "train.py").read_text() == CUDA, "what stands alone goes, the group waits"
    assert re.search(r"^note: 3 edits wait for the rest of their group: XP201 at train.py:9 was not selected", out, re.MULTILINE)
    assert "5 CUDA idioms found, 1 converted, 4 left for you" in out


def test_a_selection_that_splits_a_program_of_two_files(tmp_path, capsys):
    (tmp_path / "model.py").write_text("import torch\ndevice = torch.device('cuda')\n")
    (tmp_path / "train.py").write_text("from model import device\nimport torch\nopt = torch.optim.SGD(p)\nloss.backward()\nopt.step()\n")
    (tmp_path / "other.py").write_text("import torch\nx = torch.zeros(1).cuda()\n")
    assert run(tmp_path, "--ignore", "XP201") == 0
    assert "device('cuda')" in (tmp_path / "model.py").read_text()
    assert ".to(xm.xla_device())" in (tmp_path / "other.py").read_text(), "another program is not held back"


def test_settings_of_the_project(src, capsys):
    (src / "pyproject.toml").write_text("[tool.xlaport]\nignore = ['XP1', 'XP2']\n")
    assert run(src, "--check") == 0
    (src / "pyproject.toml").write_text("[tool.xlaport]\nspelling = '2.x'\n")
    assert run(src) == 0
    assert "torch_xla.device()" in (src / "train.py").read_text()


@pytest.mark.parametrize("table", ["unknown = 1", "spelling = 'z'", "select = 'XP1'", "distributed = 'all'", "select = ['XQ']", "x ="])
def test_bad_settings_are_one_line(src, capsys, table):
    (src / "pyproject.toml").write_text(f"[tool.xlaport]\n{table}\n")
    assert run(src) == 2
    assert one_error_line(capsys.readouterr().err)
    assert (src / "train.py").read_text() == CUDA


def test_comments_that_silence(tmp_path, capsys):
    text = "import torch\nx.cuda()  # xlaport: ignore[XP104]\ny.cuda()  # xlaport: ignore\nz.cuda()  # xlaport: ignore[XP101]\ns = '# xlaport: skip-file'\n"
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "b.py").write_text("# xlaport: skip-file\n" + CUDA)
    run(tmp_path)
    assert (tmp_path / "a.py").read_text() == text.replace("z.cuda()", "z.to(xm.xla_device())").replace("import torch\n", "import torch\n" + XM.decode(), 1)
    assert (tmp_path / "b.py").read_text() == "# xlaport: skip-file\n" + CUDA


# -- files that are bad


BAD = {
    "a syntax error": (b"import torch\ndef f(:\n    x.cuda()\n", "line 2: cannot be parsed"),
    "Python 2": (b"import torch\nprint 'cuda'\n", "line 2: cannot be parsed"),
    "bytes that are no text": (b"import torch\nx.cuda()  # \xff\xfe\n", "not utf-8 text at byte"),
    "an unknown encoding": (b"# coding: klingon\nimport torch\nx.cuda()\n", "unknown encoding"),
    "a null byte": (b"import torch\nx.cuda()\0\n", "cannot be parsed"),
    "a form feed": (b"import torch\n\x0cx.cuda()\n", "not rewritten"),
    "bare carriage returns": (b"import torch\rx.cuda()\r", "not rewritten"),
    "more parentheses than the parser takes": (b"import torch\nx = " + b"(" * 300 + b")" * 300 + b"\nx.cuda()\n", "cannot be parsed"),
    "more branches than libcst takes": (b"import torch\nx.cuda()\nif y == 0: pass\n" + b"elif y == 1: pass\n" * 1500, "nested too deeply"),
    "an expression too deep": (b"import torch\nx.cuda()\ny = " + b"-" * 30_000 + b"1\n", ""),
}


@pytest.mark.parametrize("raw, reason", BAD.values(), ids=BAD)
def test_a_bad_file_is_named_and_left_and_the_others_go_on(src, capsys, raw, reason):
    (src / "bad.py").write_bytes(raw)
    assert run(src) == 2
    out = capsys.readouterr().out
    assert (src / "bad.py").read_bytes() == raw
    assert (src / "train.py").read_text() == PORTED
    assert re.search(rf"^  failed: bad.py: .*{reason}", out, re.MULTILINE)
    assert "files: 1 changed, 1 clean, 0 skipped, 1 failed" in out


LATIN_1 = "# Größe\nNCCL_DEBUG=INFO torchrun --nproc_per_node=4 train.py\n".encode("latin-1")


def test_a_project_file_in_another_encoding_is_edited_and_keeps_its_bytes(src, capsys):
    (src / "run.sh").write_bytes(LATIN_1)
    (src / "plain.sh").write_bytes("# Größe\necho ä\n".encode("latin-1"))
    (src / "config.yaml").write_bytes("# Größe\ndevice: cuda\n".encode("latin-1"))
    assert run(src, "--report", src.parent / "r.md") == 0
    assert "0 skipped, 0 failed" in capsys.readouterr().out
    assert (src / "run.sh").read_bytes() == LATIN_1.replace(b"NCCL_DEBUG=INFO ", b"")
    assert (src / "plain.sh").read_bytes() == "# Größe\necho ä\n".encode("latin-1")
    assert (src / "config.yaml").read_bytes() == "# Größe\ndevice: xla\n".encode("latin-1")


@pytest.mark.parametrize("raw, reason", [("torch\n".encode("utf-16"), "UTF-16 text"), (b"torch\0\xff", "not text")])
def test_a_project_file_that_is_no_text_is_skipped(src, capsys, raw, reason):
    (src / "requirements.txt").write_bytes(raw)
    assert run(src) == 0
    assert f"\n  skipped: 1 {reason}\n" in capsys.readouterr().out
    assert (src / "requirements.txt").read_bytes() == raw


FAULTY = "import torch\ntorch.cuda.empty_cache()\nprint(torch.cuda.comm.gather(y))\n"


def restless(source, chosen, settings):
    return f"#\n{source.text}", tuple(chosen)


def failing(source, chosen, settings):
    raise NotRewritable("the edits fail")


@pytest.mark.parametrize("fault, reason", [(restless, engine.RESTLESS), (failing, "the edits fail")])
def test_a_file_that_cannot_be_rewritten_leaves_the_others_their_port(src, capsys, monkeypatch, fault, reason):
    (src / "bad.py").write_text(FAULTY)
    real = engine.rewritten
    monkeypatch.setattr(engine, "rewritten", lambda source, *rest: (fault if source.name == "bad.py" else real)(source, *rest))
    assert run(src) == 2
    out = capsys.readouterr().out
    assert (src / "bad.py").read_text() == FAULTY
    assert (src / "train.py").read_text() == PORTED
    assert f"  failed: bad.py: not rewritten: {reason}\n" in out
    assert "files: 1 changed, 1 clean, 0 skipped, 1 failed" in out
    assert "6 CUDA idioms found, 4 converted, 2 left for you" in out
    assert re.findall(r"^  bad.py:(\d+): ", out, re.MULTILINE) == ["3", "2"], "lines of the file as it is"


def test_edits_that_fail_are_named_and_leave_the_other_files_their_port(src, capsys, monkeypatch):
    (src / "bad.py").write_text(FAULTY)
    real = apply.apply

    def broken(text, *rest):
        if text == FAULTY:
            raise KeyError("x")
        return real(text, *rest)

    monkeypatch.setattr(apply, "apply", broken)
    monkeypatch.setattr(engine, "RAISE_RULE_ERRORS", False)
    assert run(src) == 2
    assert "  failed: bad.py: not rewritten: the edits failed (KeyError: 'x'); this is a bug in xlaport\n" in capsys.readouterr().out
    assert (src / "bad.py").read_text() == FAULTY
    assert (src / "train.py").read_text() == PORTED


@pytest.mark.parametrize("name, text", [("run.sh", "NCCL_DEBUG=INFO torchrun x.py\n"), ("setup.py", "setup(install_requires=['nvidia-ml-py', 'torch==2.1'])\n")])
def test_a_project_file_that_never_comes_to_rest_leaves_the_others_their_port(src, capsys, monkeypatch, name, text):
    (src / name).write_text(text)
    monkeypatch.setattr(projectfiles, "spliced", lambda text, operations: f"#\n{text}")
    assert run(src) == 2
    assert f"  failed: {name}: not rewritten: {engine.RESTLESS}\n" in capsys.readouterr().out
    assert (src / name).read_text() == text
    assert (src / "train.py").read_text() == PORTED


def test_a_rule_for_project_files_that_fails_is_named(src, capsys, monkeypatch):
    def check(view):
        raise KeyError("x")
        yield

    (src / "run.sh").write_text("torchrun x.py\n")
    monkeypatch.setattr(projectfiles, "checker_for", lambda path: check if path.name == "run.sh" else None)
    monkeypatch.setattr(engine, "RAISE_RULE_ERRORS", False)
    assert run(src) == 0
    assert re.search("run.sh:1: rule .* failed here .KeyError: 'x'.; this is a bug in xlaport", capsys.readouterr().out)
    assert (src / "train.py").read_text() == PORTED


@pytest.mark.parametrize("option", ["--diff", "--check"])
def test_a_bad_file_is_an_error_of_a_dry_run_too(src, capsys, option):
    (src / "bad.py").write_bytes(b"import torch\ndef f(:\n")
    assert run(src, option) == 2


GOOD = {
    "a latin-1 cookie": ("# coding: latin-1\nimport torch\nname = 'é'\nx.cuda()\n", "latin-1"),
    "CRLF": ("import torch\r\nx.cuda()\r\n", "utf-8"),
    "newlines of both kinds": ("import torch\r\ny = 1\nx.cuda()\r\nz = 2\n", "utf-8"),
    "a BOM": ("\ufeffimport torch\nx.cuda()\n", "utf-8"),
    "tabs": ("import torch\nif y:\n\tx.cuda()\n", "utf-8"),
    "no final newline": ("import torch\nx.cuda()", "utf-8"),
    "a BOM and a cookie": ("\ufeff# coding: utf-8\nimport torch\nx.cuda()  # é\n", "utf-8"),
    "a shebang and a cookie": ("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nimport torch\nx.cuda()  # \u20ac\n", "cp1252"),
    "escapes Python warns of": ("import torch\npattern = '\\d'\nx.cuda()\n", "utf-8"),
    "a form feed on a line of its own": ("import torch\n\x0c\nx.cuda()\n", "utf-8"),
    "a form feed in a text": ("import torch\ns = '\x0c'\nx.cuda()\n", "utf-8"),
}


@pytest.mark.parametrize("text, encoding", GOOD.values(), ids=GOOD)
def test_an_odd_file_keeps_its_oddity(tmp_path, capsys, text, encoding):
    path = tmp_path / "a.py"
    path.write_bytes(text.encode(encoding))
    assert run(path) == 0
    newline = "\r\n" if text.startswith("import torch\r\n") else "\n"
    expected = text.replace("x.cuda()", "x.to(xm.xla_device())").replace("import torch", f"import torch{newline}{XM.decode().rstrip()}", 1)
    assert path.read_bytes() == expected.encode(encoding)


def test_a_generated_file_is_skipped(src, capsys):
    raw = b"import torch\nx.cuda()\ndata = [\n" + b"0,\n" * 1_000_000 + b"]\n"
    (src / "data.py").write_bytes(raw)
    started = time.monotonic()
    assert run(src) == 0
    assert time.monotonic() - started < 10
    assert (src / "data.py").read_bytes() == raw
    assert "1 skipped, 0 failed\n  skipped: 1 larger than 2 MB\n" in capsys.readouterr().out
    run(src, "--report", src / "r.md")
    assert "- `data.py` skipped: larger than 2 MB, taken for generated\n" in (src / "r.md").read_text()


def test_skipped_files_are_counted_by_their_reason(src, capsys):
    (src / "a.py").write_text("# xlaport: skip-file\n" + CUDA)
    (src / "run.sh").write_text("# xlaport: skip-file\nNCCL_DEBUG=INFO python a.py\n")
    (src / "b_pb2.py").write_text(CUDA)
    (src / "pyproject.toml").write_text("[tool.xlaport]\nexclude = ['*_pb2.py']\n")
    assert run(src) == 0
    assert "3 skipped, 0 failed\n  skipped: 2 marked skip-file, 1 excluded by the settings\n" in capsys.readouterr().out


def test_a_link_is_not_followed_and_stays_a_link(src, capsys, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text(CUDA)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "other.py").write_text(CUDA)
    (src / "linked.py").symlink_to(outside)
    (src / "inside.py").symlink_to("train.py")
    (src / "lib").symlink_to(tmp_path / "lib", target_is_directory=True)
    (src / "dangling.py").symlink_to("nowhere.py")
    assert run(src) == 0
    assert outside.read_text() == (tmp_path / "lib" / "other.py").read_text() == CUDA
    assert (src / "linked.py").is_symlink() and (src / "inside.py").is_symlink() and (src / "lib").is_symlink()
    assert (src / "train.py").read_text() == PORTED
    out = capsys.readouterr().out
    assert "4 skipped" in out
    assert "\n  skipped: 2 linked out of the tree, 1 linked to nothing, 1 linked in the tree\n" in out


def test_links_that_go_round(src, capsys, tmp_path):
    (src / "a.py").symlink_to("b.py")
    (src / "b.py").symlink_to("a.py")
    (src / "self").symlink_to(".", target_is_directory=True)
    assert run(src, "--out", tmp_path / "port") == 0
    assert "2 linked to nothing" in capsys.readouterr().out
    assert (tmp_path / "port" / "train.py").read_text() == PORTED


def test_a_linked_folder_that_is_named_is_worked_in(src, capsys, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(src, target_is_directory=True)
    assert run(link) == 0
    assert (src / "train.py").read_text() == PORTED
    assert link.is_symlink()


def test_a_pipe_is_no_file(src, capsys):
    os.mkfifo(src / "pipe.py")
    assert run(src) == 0
    assert "1 skipped" in capsys.readouterr().out


UNREADABLE = "  failed: closed/: cannot be listed: permission denied\n"


@pytest.mark.parametrize("with_git", [False, True])
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed(src, capsys, with_git):
    (src / "closed").mkdir()
    (src / "closed" / "a.py").write_text(CUDA)
    if with_git:
        git(src, "init", "-q")
        git(src, "add", "-A")
    (src / "closed").chmod(0)
    try:
        assert run(src, "--out", src.parent / "port") == 2
        assert UNREADABLE in capsys.readouterr().out
        assert (src.parent / "port" / "train.py").read_text() == PORTED
        assert run(src / "closed") == 2
        assert one_error_line(capsys.readouterr().err)
    finally:
        (src / "closed").chmod(0o700)


def test_a_folder_that_cannot_be_listed(src, capsys, monkeypatch):
    (src / "closed").mkdir()
    (src / "closed" / "a.py").write_text(CUDA)
    real = os.scandir

    def refusing(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(files.os, "scandir", refusing)
    assert run(src) == 2
    assert UNREADABLE in capsys.readouterr().out
    assert (src / "train.py").read_text() == PORTED
    assert run(src / "closed") == 2
    assert one_error_line(capsys.readouterr().err)


def test_what_git_says_of_a_folder_it_cannot_list(src, capsys, monkeypatch):
    git(src, "init", "-q")
    real = subprocess.run

    def closed(command, **options):
        done = real(command, **options)
        if "ls-files" in command:
            done.stderr = b"warning: could not open directory 'closed/': Permission denied\n"
        return done

    monkeypatch.setattr(subprocess, "run", closed)
    assert run(src) == 2
    assert UNREADABLE in capsys.readouterr().out
    assert (src / "train.py").read_text() == PORTED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(src, capsys):
    (src / "secret.py").write_text(CUDA)
    (src / "secret.py").chmod(0)
    assert run(src) == 2
    assert "failed: secret.py: cannot be read: permission denied" in capsys.readouterr().out
    assert (src / "train.py").read_text() == PORTED


def test_a_file_that_cannot_be_read(src, capsys, monkeypatch):
    (src / "secret.py").write_text(CUDA)
    read = Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name == "secret.py":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    assert run(src) == 2
    assert "failed: secret.py: cannot be read: permission denied" in capsys.readouterr().out
    monkeypatch.undo()
    assert (src / "secret.py").read_text() == CUDA
    assert (src / "train.py").read_text() == PORTED


# -- writing


def test_mode_bits_stay(src, capsys):
    (src / "train.py").chmod(0o750)
    run(src)
    assert stat.S_IMODE((src / "train.py").stat().st_mode) == 0o750


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")} - {"pkg", "train.py", "clean.py", "notes.txt", "other.py"}


@pytest.mark.parametrize("name", ["replace", "chmod", "close"])
def test_a_target_that_cannot_be_written(src, capsys, monkeypatch, name):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.os, name, refuse)
    assert run(src) == 2
    assert "failed: train.py: cannot be written: permission denied" in capsys.readouterr().out
    assert (src / "train.py").read_text() == CUDA
    assert not leftovers(src)


def test_a_file_that_cannot_be_copied_is_named(src, capsys, monkeypatch, tmp_path):
    real = shutil.copy2

    def refusing(path, copy):
        if path.name == "notes.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, copy)

    monkeypatch.setattr(shutil, "copy2", refusing)
    assert run(src, "--out", tmp_path / "port") == 2
    assert "1 failed\n  failed: notes.txt: cannot be copied: permission denied\n" in capsys.readouterr().out
    assert (tmp_path / "port" / "train.py").read_text() == PORTED


def test_a_disk_that_is_full(src, capsys, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert run(src) == 2
    assert "cannot be written: no space left on device" in capsys.readouterr().out
    assert (src / "train.py").read_text() == CUDA


def test_a_file_that_may_not_be_written(src, capsys, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    assert run(src) == 2
    assert (src / "train.py").read_text() == CUDA


def test_a_file_that_changes_while_we_work(src, capsys, monkeypatch):
    (src / "other.py").write_text(CUDA)
    real = engine.migrate

    def slow(*arguments, **options):
        done = real(*arguments, **options)
        (src / "train.py").write_text("# saved meanwhile\n")
        return done

    monkeypatch.setattr(engine, "migrate", slow)
    assert run(src) == 2
    assert "failed: train.py: changed on disk while xlaport worked" in capsys.readouterr().out
    assert (src / "train.py").read_text() == "# saved meanwhile\n"
    assert (src / "other.py").read_text() == PORTED


def test_a_file_that_goes_while_we_work(src, capsys, monkeypatch):
    real = engine.migrate

    def slow(*arguments, **options):
        done = real(*arguments, **options)
        (src / "train.py").unlink()
        return done

    monkeypatch.setattr(engine, "migrate", slow)
    assert run(src) == 2
    assert "failed: train.py" in capsys.readouterr().out
    assert not (src / "train.py").exists()


@pytest.mark.parametrize("owner, name", [(engine, "findings_in"), (engine, "rewritten"), (files.os, "replace"), (files.os, "chmod"), (migrate, "outcome")])
def test_an_interrupt_leaves_every_file_whole(src, capsys, monkeypatch, owner, name):
    (src / "other.py").write_text(CUDA)
    real, calls = getattr(owner, name), []

    def interrupted(*arguments, **options):
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)
    assert run(src) == 130
    assert re.fullmatch("xlaport: interrupted[^\n]*\n", capsys.readouterr().err)
    assert {(src / file).read_text() for file in ("train.py", "other.py")} <= {CUDA, PORTED}
    assert not leftovers(src)


def test_an_interrupt_leaves_no_half_copy(src, capsys, monkeypatch, tmp_path):
    def interrupted(path, copy):
        Path(copy).write_bytes(b"ha")
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copy2", interrupted)
    assert run(src, "--out", tmp_path / "port") == 130
    assert not [path for path in (tmp_path / "port").rglob("*") if path.is_file()]


def test_an_interrupt_before_the_work(capsys, monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    assert run("x") == 130
    assert re.fullmatch("xlaport: interrupted[^\n]*\n", capsys.readouterr().err)


SLOW_WRITES = """
import signal, time
from xlaport import files
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
real = files.write_atomically
def slow(*arguments):
    print("writing", flush=True)
    time.sleep(0.2)
    real(*arguments)
files.write_atomically = slow
"""


def test_a_signal_leaves_every_file_whole(src):
    for number in range(30):
        (src / f"f{number}.py").write_text(CUDA)
    with start(src, code=SLOW_WRITES) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert re.fullmatch("xlaport: interrupted[^\n]*\n", error.decode())
    assert CUDA in (found := {path.read_text() for path in src.glob("f*.py")}) and found <= {CUDA, PORTED}
    assert not [path for path in src.rglob(".*")]


# -- git


@pytest.fixture
def repository(src) -> Path:
    git(src, "init", "-q")
    git(src, "add", "-A")
    git(src, "commit", "-qm", "x")
    return src


def test_committed_files_are_edited(repository, capsys):
    assert run(repository) == 0
    assert (repository / "train.py").read_text() == PORTED


def test_a_file_with_unstaged_changes_is_not_edited(repository, capsys):
    (repository / "train.py").write_text(CUDA + "# mine\n")
    (repository / "other.py").write_text(CUDA)
    assert run(repository) == 2
    error = capsys.readouterr().err
    assert one_error_line(error) and "train.py: unstaged changes in git" in error
    assert (repository / "train.py").read_text() == CUDA + "# mine\n"
    assert (repository / "other.py").read_text() == CUDA, "all or nothing"
    assert run(repository, "--diff") == run(repository, "--check") == 1
    assert run(repository, "--out", repository.parent / "port") == 0
    assert run(repository, "--force") == 0
    assert (repository / "train.py").read_text() == PORTED + "# mine\n"


def test_of_many_files_the_first_three_are_named():
    assert migrate.first_names("abc") == "a, b, c"
    assert migrate.first_names("abcde") == "a, b, c and 2 more"


def test_unstaged_changes_of_a_file_that_stays_do_not_matter(repository, capsys):
    (repository / "pkg" / "clean.py").write_text(CLEAN + "# mine\n")
    (repository / "notes.txt").write_text("mine\n")
    assert run(repository) == 0


def test_staged_changes_are_safe_in_the_index(repository, capsys):
    (repository / "train.py").write_text(CUDA + "# mine\n")
    git(repository, "add", "train.py")
    assert run(repository) == 0
    assert git(repository, "show", ":train.py").stdout == CUDA + "# mine\n"


def test_untracked_files_are_edited(repository, capsys):
    (repository / "new.py").write_text(CUDA)
    assert run(repository) == 0
    assert (repository / "new.py").read_text() == PORTED


def test_a_folder_below_the_top_of_the_repository(repository, capsys):
    (repository / "pkg" / "train.py").write_text(CUDA)
    git(repository, "add", "-A")
    (repository / "pkg" / "train.py").write_text(CUDA + "# mine\n")
    assert run(repository / "pkg") == 2
    assert "train.py: unstaged" in capsys.readouterr().err


def test_without_git_on_the_machine(src, capsys, monkeypatch):
    def missing(*arguments, **options):
        raise FileNotFoundError(2, "No such file or directory", "git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert run(src) == 0
    assert (src / "train.py").read_text() == PORTED


@pytest.fixture
def with_submodule(repository, tmp_path) -> Path:
    """The repository with another one, of CUDA code, as its submodule `lib`."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "kernels.py").write_text(CUDA)
    git(other, "init", "-q")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "x")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "lib")
    git(repository, "commit", "-qm", "y")
    return repository


def test_a_submodule_is_left_as_it_is(with_submodule, capsys):
    assert run(with_submodule) == 0
    out = capsys.readouterr().out
    assert "\n  skipped: 1 left as git submodule\n" in out
    assert "note: git submodules were left as they are, name their paths too to have them migrated: lib\n" in out
    assert (with_submodule / "lib" / "kernels.py").read_text() == CUDA
    assert (with_submodule / "train.py").read_text() == PORTED


def test_a_submodule_is_copied_with_the_port(with_submodule, capsys, tmp_path):
    assert run(with_submodule, "--out", tmp_path / "port") == 0
    assert "note: git submodules were copied as they are" in capsys.readouterr().out
    assert (tmp_path / "port" / "lib" / "kernels.py").read_text() == CUDA
    assert not (tmp_path / "port" / "lib" / ".git").exists()


def test_a_submodule_that_is_named_is_migrated(with_submodule, capsys, tmp_path):
    lib = with_submodule / "lib"
    assert run(with_submodule, lib, "--out", tmp_path / "port") == 0
    assert "0 skipped" in capsys.readouterr().out
    assert (tmp_path / "port" / "lib" / "kernels.py").read_text() == PORTED
    (lib / "kernels.py").write_text(CUDA + "# mine\n")
    assert run(with_submodule, lib) == 2
    assert "lib/kernels.py: unstaged changes in git" in capsys.readouterr().err
    git(lib, "add", "-A")
    assert run(with_submodule, lib) == 0
    assert (lib / "kernels.py").read_text() == PORTED + "# mine\n"


def test_a_submodule_that_is_not_checked_out(with_submodule, capsys, tmp_path):
    git(tmp_path, "clone", "-q", str(with_submodule), "clone")
    assert run(tmp_path / "clone", "--out", tmp_path / "port") == 0
    assert "1 left as git submodule" in capsys.readouterr().out
    assert (tmp_path / "port" / "train.py").read_text() == PORTED


def test_a_repository_that_was_cloned_into_the_tree(repository, capsys, tmp_path):
    git(tmp_path, "clone", "-q", str(repository), str(repository / "vendored"))
    assert run(repository, "--out", tmp_path / "port") == 0
    assert (tmp_path / "port" / "vendored" / "train.py").read_text() == CUDA


def test_unstaged_changes_in_one_of_two_repositories(repository, capsys, tmp_path):
    second = tmp_path / "second"
    git(tmp_path, "clone", "-q", str(repository), str(second))
    (second / "train.py").write_text(CUDA + "# mine\n")
    assert run(repository, second) == 2
    assert "second/train.py: unstaged changes in git" in capsys.readouterr().err


# -- what is printed


def test_what_is_left_comes_most_dangerous_first(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\nnet = torch.nn.DataParallel(net)\nimport deepspeed\ny = torch.cuda.comm.gather(a)\n")
    run(tmp_path)
    out = capsys.readouterr().out
    headings = re.findall(r"^(silently wrong if left|stops with an error|slow|harmless):$", out, re.MULTILINE)
    assert headings == sorted(headings, key=["silently wrong if left", "stops with an error", "slow", "harmless"].index) and len(headings) > 1
    assert re.search(r"^  a.py:2: .+ \[xlaport rule XP710\]$", out, re.MULTILINE)


def test_a_long_list_is_cut(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\n" + "".join(f"y = torch.cuda.unknown{number}(a)\n" for number in range(50)))
    run(tmp_path)
    out = capsys.readouterr().out
    assert "... and 30 more, listed with --report FILE" in out
    run(tmp_path, "--report", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text().count("a.py:") >= 50


def test_what_says_the_same_is_one_item(tmp_path, capsys):
    text = "import torch\n" + "y = torch.cuda.comm.gather(a)\n" * 30
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(text)
    run(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    places = [line for line in lines if re.match(r"  a\.py:2: ", line)]
    assert len(places) == 1 and not any(line.startswith("  a.py:3") for line in lines)
    others = lines[lines.index(places[0]) + 1]
    assert re.fullmatch(r"    and 59 more: a\.py:3, a\.py:4, .*, \.\.\.", others) and len(others) <= 80
    (tmp_path / "b.py").write_text("import torch\ny = torch.cuda.comm.gather(a)\n")
    (tmp_path / "a.py").write_text("import torch\ny = torch.cuda.comm.gather(a)\n")
    run(tmp_path)
    assert "    and 1 more: b.py:2" in capsys.readouterr().out.splitlines()


def test_output_into_a_pipe_is_plain(src):
    (src / "manual.py").write_text(MANUAL + "x" * 300 + "\n")
    with start(src, env=environment(FORCE_COLOR="", TERM="xterm-256color")) as process:
        out, error = process.communicate()
    assert process.returncode == 0
    assert b"\x1b" not in out + error
    assert error == b""


def test_output_on_a_terminal_of_80_columns(src):
    (src / "manual.py").write_text(MANUAL)
    for number in range(3):
        (src / f"f{number}.py").write_text(CUDA)
    main, other = pty.openpty()
    with start(src, stdout=other, stderr=other, env=environment(TERM="xterm", COLUMNS="80", LINES="24")) as process:
        os.close(other)
        text = b""
        try:
            while piece := os.read(main, 4096):
                text += piece
        except OSError:
            pass  # the other end was closed
    os.close(main)
    assert process.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())
    assert plain != text.decode()
    assert "17 CUDA idioms found, 16 converted, 1 left for you" in plain
    assert "Traceback" not in plain
    assert max(map(len, plain.splitlines())) <= 80


@pytest.mark.parametrize("count", [1, 20])
def test_a_reader_that_goes_away(src, count):
    for number in range(count):
        (src / f"f{number}.py").write_text(CUDA)
    with start(src, "--diff") as process:
        process.stdout.close()
        error = process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in error and b"BrokenPipe" not in error


@pytest.mark.parametrize("is_read", [True, False])
def test_what_was_said_before_an_error_goes_out(is_read):
    """The process ends without Python's own end, which would write what is left."""
    script = "from xlaport import __main__ as entry\ndef run():\n    print('said')\n    return 2\nentry.run = run\nentry.main()"
    out, into = os.pipe()
    if not is_read:
        os.close(out)
    done = subprocess.run([sys.executable, "-c", script], stdout=into, stderr=subprocess.PIPE, env=environment())
    os.close(into)
    assert (done.returncode, done.stderr) == (2, b"")
    if is_read:
        with os.fdopen(out, "rb") as said:
            assert said.read() == b"said\n"


def test_a_name_with_a_line_break_is_one_line(src, capsys):
    (src / "a\n\x1b[31m.py").write_text("import torch\ndef f(:\n")
    (src / "b\nc.py").write_text(CUDA)
    assert run(src, "--check") == 2
    done = capsys.readouterr()
    assert "would change b\\nc.py\n" in done.out
    assert "  failed: a\\n\\x1b[31m.py: line 2: cannot be parsed" in done.err
    assert run(src, src / "no\nsuch") == 2
    assert one_error_line(capsys.readouterr().err)


def test_a_file_that_does_not_parse_is_told_once(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\ndef f(:\n")
    assert run(tmp_path) == 2
    out = capsys.readouterr().out
    assert out.count("a.py") == 1 and "0 left for you" in out and "right folder" not in out


def test_a_terminal_that_cannot_show_a_name(tmp_path):
    (tmp_path / "näme.py").write_text("import torch\nnet = torch.nn.DataParallel('ü')\nx.cuda()\n")
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text("import torch\ndef f(:\n")
    for arguments in ([], ["--check"], ["--diff"]):
        with start(tmp_path, *arguments, env=environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")) as process:
            out, error = process.communicate()
        assert process.returncode == 2, error
        assert b"Traceback" not in error


# -- the command line


def test_without_a_verb(capsys):
    assert cli.main([]) == 2
    assert "usage: xlaport" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["migrate"], ["migrate", "--nonsense", "x"], ["nonsense"], ["migrate", "x", "--distributed", "all"]])
def test_bad_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2


def test_version_and_help(capsys):
    for arguments in (["--version"], ["--help"], ["migrate", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert xlaport.__version__ in out and "--unsafe-fixes" in out


def test_the_module_runs(src):
    done = subprocess.run([sys.executable, "-m", "xlaport", "migrate", str(src)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0
    assert "4 converted" in done.stdout


def test_an_installation_without_rules_says_so(src, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(load, "rules_folder", lambda: tmp_path / "none")
    forget = (load.builtin.cache_clear, engine.ruleset.cache_clear)
    for clear in forget:
        clear()
    try:
        assert run(src) == 2
    finally:
        for clear in forget:
            clear()
    assert one_error_line(capsys.readouterr().err)
    assert (src / "train.py").read_text() == CUDA


# -- what is imported

LOADED = "import atexit, os\natexit.register(lambda: os.write(2, ('\\n'.join(sys.modules)).encode()))"


def loaded(*arguments: object) -> set[str]:
    with start(*arguments, code=LOADED) as process:
        _, error = process.communicate()
    return {line.partition(".")[0] for line in error.decode().splitlines()}


def test_a_clean_file_needs_none_of_the_large_libraries(src):
    assert not {"torch", "torch_xla", "libcst", "rich", "numpy"} & loaded(src / "pkg" / "clean.py", "--check")


def test_edits_need_libcst_and_nothing_ever_needs_torch(src, tmp_path):
    found = loaded(src, "--report", tmp_path / "r.md")
    assert "libcst" in found
    assert not {"torch", "torch_xla", "numpy", "rich"} & found
    assert (src / "train.py").read_text() == PORTED


def test_nothing_of_the_users_code_is_run(src, tmp_path):
    for name in ("train.py", "conftest.py", "sitecustomize.py", "setup.py", "torch.py"):
        (src / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + CUDA)
    done = subprocess.run([sys.executable, "-m", "xlaport", "migrate", "."], cwd=src, capture_output=True, env={**environment(), "PYTHONSAFEPATH": "1"})
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
