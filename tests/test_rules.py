"""Every page of `rules/` is a test: its examples run, and the page follows the house form."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from xlaport import engine, residue
from xlaport.findings import Grade
from xlaport.ruleset import load
from xlaport.ruleset.examples import Outcome, blocks_of, check_page
from xlaport.ruleset.fronts import Compiled
from xlaport.ruleset.schema import Rule

PAGES = sorted(path for path in load.rules_folder().rglob("*.md") if path.parent.name != "errors")
SECTIONS = ["What it finds", "Why it matters on a TPU", "What to do", "Fix safety"]
LONGEST_PAGE = 80
AREA_FOLDERS = {"tool", "device", "step", "shapes", "branches", "syncs", "precision", "distributed", "data", "wrong"}

RULES = [page for page in PAGES if page.parent.name != "tool"]
"""Not those that speak of the tool itself: no rule finds what they say. `test_lint_command.py` runs their examples."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
every_rule = pytest.mark.parametrize("page", RULES, ids=lambda page: page.stem)


@pytest.fixture(autouse=True)
def rule_errors_are_raised(monkeypatch):
    monkeypatch.setattr(engine, "RAISE_RULE_ERRORS", True)


@every_rule
def test_examples(page: Path):
    problems = check_page(page)
    assert not problems, "\n".join(map(str, problems))


@every_page
def test_page_follows_the_form(page: Path):
    rule = load.load(page)
    assert page.stem == f"{rule.code.lower()}-{rule.name}"
    assert page.parent.name in AREA_FOLDERS
    assert re.findall(r"^## (.+)$", rule.page, re.MULTILINE) == SECTIONS
    assert not rule.summary.endswith(".")
    assert has_condition(rule)
    lines = page.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_PAGE or len(list(blocks_of(page))) > 3, f"{lines} lines: say it shorter"


@every_rule
def test_grade_fits_the_examples(page: Path):
    kinds = {block.kind for block in blocks_of(page)}
    if load.load(page).grade is Grade.MANUAL:
        assert "after" not in kinds
    else:
        assert "after" in kinds
    assert "ok" in kinds, "show a look-alike that is not found"


def test_codes_and_names_are_unique():
    rules = [load.load(page) for page in PAGES]
    assert len({rule.code for rule in rules}) == len(rules)
    assert len({rule.name for rule in rules}) == len(rules)


def has_condition(rule: Rule) -> bool:
    match = rule.match
    if rule.code in {residue.UNKNOWN_CODE, residue.KEPT_CODE} or rule.area == "tool":
        return True  # they speak of what every other rule left, or of the run
    return bool(rule.check or match.call or match.reference or match.imports or match.library or match.files or match.event)


# -- the checker itself


PAGE = """+++
code = "XP999"
name = "sample"
summary = "a sample"
area = "device"
severity = "note"
danger = "none"
grade = "safe"
intent = "DROP"
since = "0.1"
[match]
call = ["torch.cuda.empty_cache"]
[replace]
{replace}
+++
## What it finds
```python before
import torch
torch.cuda.empty_cache(){marker}
x = 1
```

```python after target=torch_xla
import torch
{after}
```

```python ok
import torch
{ok}
```
"""


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, []),
        ({"marker": ""}, [Outcome.NOISY]),
        ({"ok": "torch.cuda.empty_cache()"}, [Outcome.NOISY, Outcome.WRONG]),
        ({"ok": "torch.cpu.empty_cache()  # finds: XP999"}, [Outcome.MISSING]),
        ({"after": "x = 2"}, [Outcome.WRONG]),
        ({"after": "x ="}, [Outcome.WRONG, Outcome.WRONG]),
        ({"replace": 'expr = "print(torch.cuda.empty_cache())"'}, [Outcome.UNSTABLE]),
    ],
)
def test_checker(tmp_path, changes, expected):
    values = {"replace": "drop = true", "marker": "  # finds: XP999", "after": "x = 1", "ok": "x = 1"} | changes
    page = tmp_path / "xp999-sample.md"
    page.write_text(PAGE.format(**values), encoding="utf-8")
    assert outcomes(page) == expected


def outcomes(page: Path) -> list[Outcome]:
    return [problem.outcome for problem in check_page(page)]


def test_files_of_one_project_are_checked_together(tmp_path):
    text = PAGE.format(replace="drop = true", marker="  # finds: XP999", after="x = 1", ok="x = 1")
    text = text.replace("```python before\n", "```python before file=other.py\nfrom torch import cuda\n```\n\n```python before file=main.py\n")
    text = text.replace("target=torch_xla", "target=torch_xla file=main.py")
    page = tmp_path / "xp999-sample.md"
    page.write_text(text, encoding="utf-8")
    assert outcomes(page) == []


def test_front_matter_is_read_again_when_a_page_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("device/one.md", "errors/xpe.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("+++\na = 1\n+++\n")
    read: list[str] = []

    def front(page: Path) -> dict:
        read.append(page.name)
        return load.split(page)[0]

    assert Compiled(tmp_path, front).fronts() == Compiled(tmp_path, front).fronts() == [("device/one.md", {"a": 1}, False)]
    assert read == ["one.md"]
    (tmp_path / "device/one.md").write_text("+++\na = 22\n+++\n")
    assert Compiled(tmp_path, front).fronts() == [("device/one.md", {"a": 22}, False)]
    (tmp_path / "device/one.py").touch()
    assert Compiled(tmp_path, front).fronts() == [("device/one.md", {"a": 22}, True)]
    (tmp_path / "device/one.md").rename(tmp_path / "device/two.md")
    assert Compiled(tmp_path, front).fronts() == [("device/two.md", {"a": 22}, False)]
    assert read == ["one.md", "one.md", "one.md", "two.md"]
