"""`[tool.xlaport]`: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlaport import cli, config
from xlaport.config import Settings
from xlaport.errors import UserError

CUDA = "import torch\n\nx = torch.zeros(1).cuda()\n"


def project(folder: Path, table: str = "") -> Path:
    """A folder with settings, a CUDA program and the same program as third-party code."""
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.xlaport]\n{table}\n", encoding="utf-8")
    for name in ("train.py", "vendored/net.py", "src/vendored/net.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(CUDA, encoding="utf-8")
    return folder


def ported(folder: Path) -> list[str]:
    """Files that no longer say CUDA."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if "cuda" not in path.read_text(encoding="utf-8"))


def test_nothing_said_is_the_defaults(tmp_path):
    assert config.load(tmp_path) == Settings()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert config.load(tmp_path) == Settings()


def test_settings_of_the_nearest_project(tmp_path):
    project(tmp_path, 'ignore = ["XP6"]\nspelling = "2.x"')
    assert config.load(tmp_path / "src") == Settings(ignore=("XP6",), spelling="2.x")


def test_no_settings_from_outside_the_work_tree(tmp_path):
    project(tmp_path, 'spelling = "2.x"')
    (tmp_path / "src" / ".git").mkdir()
    assert config.load(tmp_path / "src" / "vendored") == Settings()


@pytest.mark.parametrize(
    "table, said",
    [
        ("selct = []", "no setting 'selct'"),
        ('select = "XP1"', "select is a list of strings, not 'XP1'"),
        ("ignore = [1]", "ignore is a list of strings"),
        ("spelling = 2", "spelling is a string"),
        ('spelling = "3.x"', "spelling is one of xm, 2.x"),
        ('distributed = "ddp"', "distributed is one of auto, spmd, mp, keep"),
        ("select = [", "not TOML"),
    ],
)
def test_bad_settings_name_the_file_and_the_setting(tmp_path, table, said):
    with pytest.raises(UserError) as error:
        config.load(project(tmp_path, table))
    assert said in str(error.value)
    assert "pyproject.toml" in str(error.value)


@pytest.mark.parametrize("table", ['ignore = ["XP20l"]', 'select = ["TPU1"]'])
def test_codes_that_no_rule_has_are_refused(tmp_path, capsys, table):
    assert cli.main(["migrate", str(project(tmp_path, table)), "--check"]) == 2
    assert "no rule starts with" in capsys.readouterr().err


def test_the_command_line_goes_first(tmp_path):
    folder = project(tmp_path, 'ignore = ["XP1"]')
    assert cli.main(["migrate", str(folder)]) == 0
    assert ported(folder) == []
    assert cli.main(["migrate", str(folder), "--ignore", "XP2"]) == 0
    assert ported(folder) == ["src/vendored/net.py", "train.py", "vendored/net.py"]


@pytest.mark.parametrize(
    "pattern, left",
    [
        ("vendored", ["src/vendored/net.py", "vendored/net.py"]),
        ("n?t.py", ["src/vendored/net.py", "vendored/net.py"]),
        ("src/*", ["src/vendored/net.py"]),
        ("vendored/*", ["vendored/net.py"]),
        ("other", []),
    ],
)
def test_excluded_files_are_left_alone_and_counted(tmp_path, capsys, pattern, left):
    folder = project(tmp_path, f'exclude = ["{pattern}"]')
    assert cli.main(["migrate", str(folder)]) == 0
    assert ported(folder) == sorted({"src/vendored/net.py", "train.py", "vendored/net.py"} - set(left))
    assert f"{len(left)} skipped" in capsys.readouterr().out


def test_excluded_files_are_copied_as_they_are(tmp_path):
    folder = project(tmp_path / "project", 'exclude = ["vendored"]')
    assert cli.main(["migrate", str(folder), "--out", str(tmp_path / "port")]) == 0
    assert (tmp_path / "port" / "vendored" / "net.py").read_text(encoding="utf-8") == CUDA
    assert ported(tmp_path / "port") == ["train.py"]
