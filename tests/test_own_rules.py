"""Rules that users bring: data by configuration, code by the command line only, and the tests of their pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_lint_command import codes, found, lines, run, write

from xlaport import cli
from xlaport.ruleset import load

PAGE = """\
+++
code = "OURS1"
name = "old-loader"
summary = "our loader waits for the device"
area = "syncs"
severity = "warning"
danger = "slow"
grade = "{grade}"
intent = "HOST_SYNC"
since = "1"
[match]
{match}
+++
## What it finds
Calls of the loader.

```python before
from ourlib import load
load()  # finds: OURS1
```
{after}
```python ok
from otherlib import load
load()
```
"""
CALL = 'call = ["ourlib.load"]'
CODE = """\
from pathlib import Path

def check(context):
    Path("ran").touch()
    for call in context.calls("ourlib.load"):
        yield context.finding(call, "by code")
"""
USE = "import ourlib\n\nourlib.load()\n"


def page(folder: Path, match: str = CALL, grade: str = "manual", after: str = "", name: str = "ours1-old-loader") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(PAGE.format(match=match, grade=grade, after=after), encoding="utf-8")
    return path


def configure(folder: Path, *paths: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.xlaport]\nextend-rules = {json.dumps(paths)}\n")


def rule(*arguments: object) -> int:
    return cli.main(["rule", *map(str, arguments)])


@pytest.fixture(autouse=True)
def no_rules_are_remembered():
    load.own.cache_clear()


@pytest.mark.parametrize("name", ["rules", "rules/ours1-old-loader.md"])
def test_pages_by_configuration(here, capsys, name):
    """Also in files that say nothing of torch."""
    page(here / "rules")
    configure(here, name)
    write(here, train=USE, sub__other=USE + "# xlaport: ignore[OURS2]\n")
    assert codes(capsys, "train.py") == ["OURS1"]
    assert codes(capsys, "sub", "--select", "OURS") == ["OURS1"]
    assert codes(capsys, "train.py", "--ignore", "OURS1") == []


def test_configuration_does_not_run_code(here, capsys):
    page(here / "rules").with_suffix(".py").write_text(CODE)
    configure(here, "rules")
    write(here, train=USE)
    assert run("train.py") == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "a configuration may not run code" in said.err
    assert not (here / "ran").exists()


@pytest.mark.parametrize("name", ["rules", "rules/ours1-old-loader.md", "rules/ours1-old-loader.py"])
def test_code_by_the_command_line(here, capsys, name):
    page(here / "rules", match='text = "ourlib"').with_suffix(".py").write_text(CODE)
    write(here, train=USE)
    assert [item["message"] for item in found(capsys, "train.py", "--python-rules", name)] == ["by code"]
    assert (here / "ran").exists()
    assert codes(capsys, "train.py") == []


def test_an_edited_rule_is_not_answered_from_the_cache(here, capsys):
    page(here / "rules")
    configure(here, "rules")
    write(here, train=USE)
    assert codes(capsys, "train.py") == ["OURS1"]
    page(here / "rules", match='call = ["ourlib.save"]')
    load.own.cache_clear()
    from xlaport.lint import check

    check.rules_of.cache_clear()
    check.index_of.cache_clear()
    assert codes(capsys, "train.py") == []


@pytest.mark.parametrize(
    "text, said",
    [
        (PAGE.format(match=CALL, grade="manual", after="").replace("OURS1", "XP104"), "code XP104 is taken by"),
        (PAGE.format(match="cal = []", grade="manual", after=""), "unexpected keyword argument 'cal'"),
        (PAGE.format(match=CALL, grade="great", after=""), "'great' is not a valid Grade"),
        ("no front matter", "no front matter between +++ lines"),
    ],
)
def test_bad_pages_are_one_line(here, capsys, text, said):
    page(here / "rules").write_text(text)
    configure(here, "rules")
    write(here, train=USE)
    for said_by in (lambda: run("train.py"), lambda: rule("test", "rules")):
        assert said_by() == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_code_that_cannot_be_loaded_is_one_line(here, capsys):
    page(here / "rules").with_suffix(".py").write_text("import nothing_like_this\n")
    write(here, train=USE)
    assert run("train.py", "--python-rules", "rules") == 2
    assert "nothing_like_this" in capsys.readouterr().err


# -- xlaport rule


def test_pages_are_tested(here, capsys):
    path = page(here / "rules")
    assert rule("test", path) == 0
    assert lines(capsys) == ["1 page, 0 problems"]
    path.write_text(path.read_text().replace("  # finds: OURS1", ""))
    assert rule("test", "rules") == 1
    assert lines(capsys) == ["rules/ours1-old-loader.md:19: NOISY: unexpected: our loader waits for the device", "1 page, 1 problem"]
    assert rule("test", "rules", "--json") == 1
    problem = {"outcome": "noisy", "file": "rules/ours1-old-loader.md", "line": 19, "message": "unexpected: our loader waits for the device"}
    assert json.loads(capsys.readouterr().out) == {"version": 1, "pages": 1, "problems": [problem]}


def test_pages_with_fixes_are_tested(here, capsys):
    after = "\n```python after\nfrom ourlib import load\nload(wait=False)\n```\n"
    page(here / "rules", match=CALL + '\n[replace]\nset = { wait = "False" }', grade="safe", after=after)
    assert rule("test", "rules") == 0, capsys.readouterr().out
    configure(here, "rules")
    write(here, train=USE)
    run("train.py", "--fix")
    assert (here / "train.py").read_text() == "import ourlib\n\nourlib.load(wait=False)\n"


@pytest.mark.parametrize("arguments", [[], ["test"], ["test", "nowhere"], ["XP999"]])
def test_what_rule_cannot_do_is_one_line(here, capsys, arguments):
    assert rule(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_rules_as_json(here, capsys):
    assert rule("XP104", "syntax-error", "--json") == 0
    assert [item["code"] for item in json.loads(capsys.readouterr().out)["rules"]] == ["XP104", "XP001"]
    assert rule("--all", "--output-format", "json") == 0
    listed = json.loads(capsys.readouterr().out)["rules"]
    assert [item["code"] for item in listed] == [item.code for item in load.builtin()]
    assert listed[0].keys() >= {"code", "name", "summary", "severity", "grade", "page"}
