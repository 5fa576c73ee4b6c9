"""`xlaport preflight` as a command: what is refused before anything is traced, and what the process imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlaport.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture
def said(here, monkeypatch, capsys):
    """Runs the verb without a compiler, beside an empty script; gives the exit status and stderr."""
    (here / "conf.py").touch()
    monkeypatch.setenv("XLAPORT_COMPILER", str(here / "none"))

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["preflight", *arguments])
        return status, capsys.readouterr().err.strip()

    return run


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "name what to compile: SCRIPT.py, --factory MODULE:FUNCTION or --hf CONFIG"),
        (("train.py", "--factory", "a:b"), "name a script or a --factory, not both"),
        (("--factory", "a:b", "--hf", "c"), "name one of SCRIPT.py, --factory and --hf"),
        (("train.py",), "train.py: no such file"),
        ((".",), ". is a folder: name the script that trains"),
        (("conf.py", "--price", "v5e"), "--price v5e: write TPU=USD, such as v5e=1.2"),
        (("conf.py", "--price", "v5e=0"), "--price v5e=0: a price is a number above 0"),
        (("conf.py", "--price", "v5e=-3"), "--price v5e=-3: a price is a number above 0"),
        (("conf.py", "--price", "v5e=nan"), "--price v5e=nan: a price is a number above 0"),
        (("conf.py", "--price", "v5e=inf"), "--price v5e=inf: a price is a number above 0"),
        (("conf.py", "--suggest", "--vary", "--b {size}"), "--vary --b {size}: the only place holder is {b}"),
        (("conf.py", "--suggest", "--vary", " "), '--vary needs words, such as "--batch-size {b}"'),
        (("conf.py", "--route", "torchax"), "--route torchax goes with --factory and --hf: a script that runs on torchax is a program of jax"),
        (("--factory", "train"), "--factory train: write MODULE:FUNCTION or FILE.py:FUNCTION"),
        (("--factory", "a:b", "--set", "3"), "--set 3: write NAME=VALUE"),
        (("--factory", "a:b", "--topology", "v5e-4"), "'v5e-4' is not a topology, which is written TPU:SHAPE: v5e-4 is v5e:2x2"),
        (("--factory", "a:b", "--topology", "v5e:1x1", "--ladder", "v5e"), "give --topology or --ladder, not both"),
        (("--factory", "a:b", "--chips", "4"), "--chips goes with --ladder; a single slice is named by --topology"),
        (("--factory", "a:b", "--ladder", "v5e", "--chips", "4,x"), "--chips: 'x' is not a number of chips"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(said, arguments, message):
    assert said(*arguments) == (2, f"xlaport: {message}")


def test_without_the_compiler_it_says_how_to_get_it(said, here):
    status, message = said("--factory", "a:b")
    assert status == 2
    assert message == (
        f"xlaport: the TPU compiler is not set up: `xlaport preflight --setup` installs jax 0.10.2 and libtpu 0.0.52 (about 1.1 GB) into {here}/none/jax-0.10.2-libtpu-0.0.52, once"
    )


def test_this_process_imports_neither_torch_nor_jax_nor_the_linter(here):
    code = (
        "import sys; from xlaport.cli import main; main(['preflight', '--factory', 'a:b']); "
        "found = sorted({name.split('.')[0] for name in sys.modules} & {'torch', 'torch_xla', 'jax', 'jaxlib', 'libtpu', 'numpy', 'libcst', 'rich'}); "
        "found += [name for name in sys.modules if name.startswith(('xlaport.analysis', 'xlaport.ruleset', 'xlaport.engine', 'xlaport.rewrite'))]; print(found)"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XLAPORT_COMPILER": str(here / "none")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stderr
