"""The hooks of `.pre-commit-hooks.yaml`, run by the real pre-commit in real repositories, installed from this checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport import files

pytestmark = pytest.mark.packaging

CHECKOUT = Path(__file__).resolve().parent.parent
CONFIG = """\
repos:
- repo: {repo}
  rev: {rev}
  hooks:
  - id: xlaport-lint
  - id: xlaport-migrate
"""
CLEAN = "import torch\n\nx = torch.ones(1)\n"
CUDA = "import torch\n\nx = torch.ones(1).cuda()\n"


def git(folder: Path, *arguments: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=check, env=environment(**variables))


def environment(**variables: str) -> dict[str, str]:
    """Without paths that would let a hook import xlaport from the checkout."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **variables}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory) -> tuple[str, Path]:
    """A configuration that installs the checkout as it is now, changes that are not committed included, and pre-commit's cache."""
    snapshot = tmp_path_factory.mktemp("xlaport")
    for path in files.walk(CHECKOUT, {}):
        if path.is_file():
            copy = snapshot / path.relative_to(CHECKOUT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
    git(snapshot, "init", "-q")
    git(snapshot, "add", "-A")
    git(snapshot, "commit", "-qm", "now")
    return CONFIG.format(repo=snapshot, rev=git(snapshot, "rev-parse", "HEAD").stdout.strip()), tmp_path_factory.mktemp("cache")


class Repository:
    """A repository with the hooks installed."""

    def __init__(self, folder: Path, config: str, cache: Path):
        self.folder, self.cache = folder, cache
        git(folder, "init", "-q")
        self.write(".pre-commit-config.yaml", config)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "start")
        self.run(sys.executable, "-m", "pre_commit", "install", check=True)

    def run(self, *command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        variables = environment(PRE_COMMIT_HOME=str(self.cache), PRE_COMMIT_COLOR="never")
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=check, env=variables)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def stage(self, name: str, text: str) -> None:
        self.write(name, text)
        git(self.folder, "add", name)

    def commit(self) -> subprocess.CompletedProcess[str]:
        return git(self.folder, "commit", "-m", "work", check=False, PRE_COMMIT_HOME=str(self.cache), PRE_COMMIT_COLOR="never")


@pytest.fixture
def repository(hooks, tmp_path) -> Repository:
    return Repository(tmp_path, *hooks)


def test_a_clean_file_is_committed(repository):
    repository.stage("train.py", CLEAN)
    done = repository.commit()
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Passed") == 2


def test_a_file_with_findings_is_refused_by_both_and_stays(repository):
    repository.stage("train.py", CUDA)
    done = repository.commit()
    assert done.returncode == 1
    assert done.stderr.count("Failed") == 2
    assert "train.py:3:5: XP104 moves to a CUDA device" in done.stderr and "would change train.py" in done.stderr
    assert repository.read("train.py") == CUDA


def test_what_is_staged_counts_in_a_dirty_tree(repository):
    """Unstaged changes and untracked files neither help nor hurt, and survive."""
    repository.stage("train.py", CLEAN)
    repository.write("train.py", CUDA)
    repository.write("untracked.py", CUDA)
    done = repository.commit()
    assert done.returncode == 0, done.stderr
    assert repository.read("train.py") == CUDA

    git(repository.folder, "add", "train.py")
    repository.write("train.py", CLEAN)
    done = repository.commit()
    assert done.returncode == 1 and "XP104" in done.stderr and "untracked.py" not in done.stderr
    assert repository.read("train.py") == CLEAN


def test_a_notebook_with_findings_is_refused_by_both(repository):
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": line} for line in CUDA.splitlines()]
    repository.stage("train.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    done = repository.commit()
    assert done.returncode == 1
    assert "train.ipynb:cell 3:1:5: XP104 moves to a CUDA device" in done.stderr and "would change train.ipynb" in done.stderr


def test_without_python_files_there_is_nothing_to_do(repository):
    repository.stage("notes.md", "cuda\n")
    done = repository.commit()
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("(no files to check)Skipped") == 2
    done = repository.run(sys.executable, "-m", "pre_commit", "run", "--all-files")
    assert done.returncode == 0, done.stdout


def test_all_files_of_a_repository(repository):
    repository.stage("a.py", CLEAN)
    repository.stage("b c.py", CUDA)
    done = repository.run(sys.executable, "-m", "pre_commit", "run", "--all-files")
    assert done.returncode == 1
    assert "b c.py:3:5: XP104" in done.stdout and "a.py" not in done.stdout


def test_fixing_on_commit(repository, hooks):
    """With `args: [--fix]` the commit is refused once, with the fixed file to be staged."""
    text = repository.read(".pre-commit-config.yaml").replace("xlaport-lint\n", "xlaport-lint\n    args: [--fix]\n")
    repository.stage(".pre-commit-config.yaml", text)
    repository.stage("train.py", CLEAN + "torch.cuda.empty_cache()\n")
    done = repository.commit()
    assert done.returncode == 1 and "files were modified by this hook" in done.stderr
    assert repository.read("train.py") == CLEAN
    git(repository.folder, "add", "-A")
    assert repository.commit().returncode == 0
