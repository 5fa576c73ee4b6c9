"""The distribution: an sdist, the wheel built from it, and what an installation of either kind finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from xlaport.ruleset import load

pytestmark = pytest.mark.packaging

CHECKOUT = Path(__file__).resolve().parent.parent
LIMIT = 300
"""Seconds for one command: building and installing ask a package index."""


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path

    @property
    def in_sdist(self) -> set[str]:
        """Names in the sdist, without its top folder."""
        with tarfile.open(self.sdist) as archive:
            return {str(PurePosixPath(*PurePosixPath(item.name).parts[1:])) for item in archive.getmembers() if item.isfile()}

    @property
    def in_wheel(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())


class Environment:
    """A fresh virtual environment, of which the tests' own environment is no part."""

    def __init__(self, folder: Path):
        venv.create(folder, with_pip=True)
        self.folder = folder
        self.scripts = folder / ("Scripts" if os.name == "nt" else "bin")

    def install(self, *what: str) -> None:
        run([str(self.scripts / "python"), "-m", "pip", "install", "--quiet", *what], self.folder)

    def run(self, program: str, *arguments: str) -> str:
        return run([str(self.scripts / program), *arguments], self.folder)


def run(command: list[str], folder: Path) -> str:
    """Output of a command that must succeed, run away from the checkout so that nothing is imported from it."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """`python -m build` makes the sdist, and the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(CHECKOUT)], folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"))


def sources(folder: str) -> set[str]:
    """Files below a folder of the checkout, relative to it, caches left out."""
    root = CHECKOUT / folder
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def below(names: set[str], folder: str) -> set[str]:
    return {name.removeprefix(folder) for name in names if name.startswith(folder)}


def test_wheel_holds_the_package_its_data_and_the_rules(built):
    assert below(built.in_wheel, "xlaport/_rules/") == sources("rules")
    assert below(built.in_wheel, "xlaport/data/") == sources("xlaport/data") != set()
    packaged = {name for name in below(built.in_wheel, "xlaport/") if not name.startswith("_rules/")}
    assert packaged == sources("xlaport")
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in built.in_wheel)


@pytest.mark.parametrize("folder", ["xlaport", "rules", "tests", "sample_models", "bench", "tools", "docs"])
def test_sdist_holds_what_the_tests_need(built, folder):
    assert below(built.in_sdist, f"{folder}/") == sources(folder)


def test_sdist_holds_the_files_beside_them(built):
    assert {"pyproject.toml", "README.md", "MIGRATION.md", "LICENSE", ".ci/run"} <= built.in_sdist


def test_wheel_and_editable_install_find_all_rules(built, environment):
    """One environment for both: the editable install takes the place of the wheel."""
    environment.install(str(built.wheel))
    assert installed_rules(environment) == codes()
    assert "_rules" in rules_folder(environment)
    migrates_a_sample(environment)

    environment.install("--editable", str(CHECKOUT))
    assert installed_rules(environment) == codes()
    assert rules_folder(environment) == str(CHECKOUT / "rules")


def codes() -> list[str]:
    return [rule.code for rule in load.builtin()]


def installed_rules(environment: Environment) -> list[str]:
    listed = environment.run("xlaport", "rule", "--all").splitlines()
    shown = json.loads(environment.run("xlaport", "rule", "--all", "--json"))["rules"]
    assert [line.split()[0] for line in listed] == [rule["code"] for rule in shown]
    return [rule["code"] for rule in shown]


def rules_folder(environment: Environment) -> str:
    return environment.run("python", "-c", "from xlaport.ruleset import load; print(load.rules_folder())").strip()


def migrates_a_sample(environment: Environment) -> None:
    """Rules, targets and data of the wheel work together."""
    out = environment.folder / "port"
    environment.run("xlaport", "migrate", str(CHECKOUT / "sample_models" / "vae.py"), "--out", str(out), "--report", str(out / "report.md"))
    assert "import torch_xla" in (out / "vae.py").read_text(encoding="utf-8")
    assert (out / "report.md").read_text(encoding="utf-8").startswith("# Migration to TPU")
