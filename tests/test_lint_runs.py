"""Answers of earlier runs, and several processes: neither may change what is said."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from pathlib import Path

import pytest
from test_lint_command import CLEAN, CUDA, codes, found, run, write
from test_migrate_command import environment

from xlaport import usercache
from xlaport.lint import cache, check
from xlaport.ruleset import load

# -- the cache


@pytest.fixture
def looked(monkeypatch) -> list[Path]:
    """Files that were really looked at."""
    seen: list[Path] = []
    original = check.Linter.diagnostics
    monkeypatch.setattr(check.Linter, "diagnostics", lambda self, project, path: seen.append(path) or original(self, project, path))
    return seen


def test_an_unchanged_project_is_not_looked_at_again(here, capsys, looked):
    write(here, a=CUDA, b=CLEAN)
    first = found(capsys)
    assert len(looked) == 2
    assert found(capsys) == first
    assert len(looked) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda here: write(here, b=CLEAN + "\n"),
        lambda here: (here / "b.py").rename(here / "c.py"),
        lambda here: (here / "b.py").unlink(),
        lambda here: (here / "pyproject.toml").write_text('[tool.xlaport]\nignore = ["XP104"]\n'),
    ],
    ids=["content", "name", "file", "settings"],
)
def test_a_change_anywhere_is_noticed(here, capsys, looked, change):
    write(here, a=CUDA, b=CLEAN)
    run()
    looked.clear()
    change(here)
    run()
    assert here / "a.py" in looked


def test_a_change_of_a_rule_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(load, "rules_folder", lambda: tmp_path / "rules")
    keys = [cache.key([], "", [])]
    page = tmp_path / "rules" / "device" / "xp101.md"
    page.parent.mkdir(parents=True)
    for text in ("", "+++"):
        page.write_text(text)
        keys.append(cache.key([], "", []))
    (page.parent / "__pycache__").mkdir()
    (page.parent / "__pycache__" / "xp101.py").touch()
    assert len(set(keys)) == 3 and cache.key([], "", []) == keys[-1]


@pytest.mark.parametrize("arguments", [["--json"], ["--select", "XP1"], ["a.py"], ["--no-cache"]])
def test_another_question_has_another_answer(here, looked, arguments):
    write(here, a=CUDA, b=CLEAN)
    run()
    looked.clear()
    run(*arguments)
    assert here / "a.py" in looked


def test_names_are_those_of_this_run(here, capsys, monkeypatch):
    write(here, src__a=CUDA)
    assert found(capsys, here)[0]["file"] == "src/a.py"
    monkeypatch.chdir(here / "src")
    assert found(capsys, here)[0]["file"] == "a.py"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b'{"KEY": [{}]}', b'{"KEY": [1]}', b'{"KEY": 5}', b"[" * 100_000])
def test_a_broken_cache_is_no_answer(here, capsys, raw):
    write(here, a=CUDA)
    first = codes(capsys)
    (kept,) = usercache.folder("lint").iterdir()
    kept.write_bytes(raw.replace(b"KEY", kept.stem.encode()))
    assert codes(capsys) == first
    assert json.loads(kept.read_bytes()).keys() == {kept.stem}


def test_a_cache_that_cannot_be_written_is_no_error(here, capsys, monkeypatch):
    write(here, a=CUDA)
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "a.py"))
    assert codes(capsys) == ["XP104", "XP121"]


def test_nothing_is_kept_on_request(here):
    write(here, a=CUDA)
    run("--no-cache")
    assert not usercache.folder("lint").exists()


def test_the_oldest_answers_go_first(here, monkeypatch):
    monkeypatch.setattr(cache, "KEPT", 2)
    for number in range(4):
        write(here, a=f"x = {number}\n")
        run()
        for age, kept in enumerate(sorted(usercache.folder("lint").iterdir(), key=lambda path: -path.stat().st_mtime)):
            os.utime(kept, (1000 - age, 1000 - age))
    assert len(list(usercache.folder("lint").iterdir())) == 2


def test_runs_at_once_share_the_cache(here):
    write(here, **{f"m{number}": CUDA for number in range(5)})
    command = [sys.executable, "-m", "xlaport", "lint", "--json"]
    runs = [subprocess.Popen(command, cwd=here, env=environment(), stdout=subprocess.PIPE) for _ in range(4)]
    answers = {process.communicate()[0] for process in runs}
    assert len(answers) == 1 and len(json.loads(answers.pop())["findings"]) == 10
    assert [path.suffix for path in usercache.folder("lint").iterdir()] == [".json"]


def test_an_answer_that_is_kept_needs_no_analysis(here):
    write(here, a=CUDA)
    run()
    script = "import sys\nfrom xlaport import cli\ncli.main(['lint'])\nprint(sorted(name for name in sys.modules if name.startswith(('xlaport.analysis', 'xlaport.rewrite.apply'))))"
    done = subprocess.run([sys.executable, "-c", script], cwd=here, env=environment(), capture_output=True, text=True, check=True)
    assert "XP104" in done.stdout and done.stdout.endswith("[]\n")


# -- several processes


@pytest.fixture
def project(here) -> Path:
    """Files that need one another, of different lengths."""
    write(here, pkg__net="import torch\n\ndef build():\n    return torch.nn.Linear(1, 1)\n")
    for number in range(20):
        write(here, **{f"pkg__m{number:02}": "import torch\nfrom pkg.net import build\n" + "x = build().cuda()\n" * (number + 1)})
    write(here, pkg__broken="def f(:\n", train=CUDA)
    return here


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_several_processes_say_the_same(project, capsys, monkeypatch, how):
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {how}")
    alone = found(capsys, "--no-cache", "--jobs", "1")
    monkeypatch.setattr(check, "START_METHOD", how)
    assert found(capsys, "--no-cache", "--jobs", "2") == alone
    assert len(alone) > 200


def test_large_projects_use_all_cpus(project, monkeypatch):
    asked = []
    monkeypatch.setattr(check, "WORTH_PROCESSES", 100)
    monkeypatch.setattr(check, "cpus", lambda: 3)
    monkeypatch.setattr(check, "in_processes", lambda linter, project, paths, jobs: asked.append(jobs))
    run("--no-cache")
    assert asked == [3]


def test_a_process_that_the_system_ends_costs_only_time(project, capsys, monkeypatch):
    alone = found(capsys, "--no-cache", "--jobs", "1")

    def ended(*_):
        raise BrokenProcessPool

    monkeypatch.setattr(ProcessPoolExecutor, "map", ended)
    assert found(capsys, "--no-cache", "--jobs", "2") == alone


@pytest.mark.parametrize("word", ["0", "-1", "many"])
def test_a_number_of_processes_is_above_zero(here, capsys, word):
    with pytest.raises(SystemExit) as stopped:
        run("--jobs", word)
    assert stopped.value.code == 2
