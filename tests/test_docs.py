"""What README.md, MIGRATION.md and docs/ say is true of the checkout."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import textwrap
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from documented import CHECKOUT, DOCS

from xlaport import cli, engine, files
from xlaport.config import Settings, from_table
from xlaport.ruleset import load

FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```$", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"^<!-- (\w+): ([^\n]+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
PATH = re.compile(r"`((?:xlaport|rules|tests|tools|bench|docs|sample_models)/[\w./-]*)`")
CODE = re.compile(r"\bXP\d{3}\b")
EXAMPLES = ("src/", "../port", "train.py")
"""What stands for a repository of the reader's."""

HERE_ONLY = re.compile(
    # In pieces, so that this file does not match itself.
    "|".join([r"(?<![\w./$}~-])/(?:wo" + r"rk|ro" + r"ot)/[\w.]", "bash_" + "jobs", r"\.lib" + "rary/"])
)
REGISTRIES = re.compile("|".join(["py" + r"pi\.org", "python" + "hosted", "npm" + "js", "org/" + "simple", r"debian\.org", "/opt/py" + "pi"]))

every_doc = pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def marked(kind: str) -> dict[str, str]:
    """The fenced blocks of README.md below `<!-- kind: name -->`, by name."""
    return {name: block for found, name, block in MARKED.findall(text_of(CHECKOUT / "README.md")) if found == kind}


def commands() -> list[list[str]]:
    """The words of every command in README.md."""
    blocks = [code for language, code in FENCE.findall(text_of(CHECKOUT / "README.md")) if language == "sh"]
    return [shlex.split(part, comments=True) for block in blocks for line in block.splitlines() for part in line.split(" && ")]


# -- the rule table


def test_rule_table_is_up_to_date():
    generator = tool("generate_rule_table")
    text = text_of(CHECKOUT / "MIGRATION.md")
    assert text == generator.with_table(text, generator.table(load.builtin())), "run python tools/generate_rule_table.py"


def test_error_table_is_up_to_date():
    generator = tool("generate_error_table")
    text = text_of(CHECKOUT / "docs" / "explain.md")
    assert text == generator.with_table(text, generator.table(generator.pages.builtin())), "run python tools/generate_error_table.py"


def test_rule_table_has_every_rule_once():
    table = tool("generate_rule_table").table(load.builtin())
    assert re.findall(r"^\| \[(XP\d{3})\]", table, re.MULTILINE) == [rule.code for rule in in_table_order()]


def in_table_order():
    from xlaport.ruleset.schema import AREAS

    return sorted(load.builtin(), key=lambda rule: (AREAS.index(rule.area), rule.code))


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- README


def test_readme_has_the_commands_ci_runs():
    assert marked("ci").keys() == {"try", "tests"}


def test_readme_commands_parse():
    """Every verb and option that README shows exists."""
    shown = [words[1:] for words in commands() if words[:1] == ["xlaport"]]
    assert len(shown) > 4
    for words in shown:
        own, _ = cli.divided(words)
        cli.build_parser(own).parse_args(own)


def test_files_of_readme_commands_exist():
    for words in commands():
        for word in words:
            name = word.replace("../sample_models_tpu", "sample_models")
            if "/" in name and not name.startswith(("http", "../migration.md", ".venv", *EXAMPLES)):
                assert (CHECKOUT / name).exists(), word


def test_readme_output_is_that_of_a_run():
    generator = tool("generate_readme_output")
    text = text_of(CHECKOUT / "README.md")
    shown = generator.excerpt(generator.output())
    assert shown.count("\n") > 5
    assert text == generator.with_output(text, shown), "run python tools/generate_readme_output.py"


# -- all documents


@every_doc
def test_links_lead_to_files(path: Path):
    for target in LINK.findall(text_of(path)):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@every_doc
def test_named_files_exist(path: Path):
    for name in PATH.findall(text_of(path)):
        assert (CHECKOUT / name).exists(), name


@every_doc
def test_named_rules_exist(path: Path):
    known = {rule.code for rule in load.builtin()} | {engine.SYNTAX_CODE, engine.CRASH_CODE}
    named = set(CODE.findall(text_of(path))) - {code for code in CODE.findall(text_of(path)) if code.endswith(("00", "99"))}
    assert named <= known, sorted(named - known)


@every_doc
def test_python_examples_parse(path: Path):
    for language, code in FENCE.findall(text_of(path)):
        if language == "python":
            ast.parse(code)


def test_settings_that_documents_show_are_accepted():
    shown = [tomllib.loads(textwrap.dedent(code)) for path in DOCS for language, code in FENCE.findall(text_of(path)) if language == "toml"]
    tables = [table["tool"]["xlaport"] for table in shown if "xlaport" in table.get("tool", {})]
    assert tables
    for table in tables:
        from_table(table, CHECKOUT / "pyproject.toml")


def test_settings_table_is_up_to_date():
    generator = tool("generate_settings_table")
    text = text_of(CHECKOUT / "docs" / "configuration.md")
    assert text == generator.with_table(text, generator.table()), "run python tools/generate_settings_table.py"


def test_settings_are_described_as_they_are():
    """The default in words is that of the code, and the option is one of `migrate`."""
    parser = cli.build_parser(["migrate"])
    options = next(action for action in parser._actions if action.choices).choices["migrate"].format_help()
    for item in fields(Settings):
        shown, option = item.metadata["shown"], item.metadata["option"]
        assert shown == f"`{json.dumps(item.default)}`" or item.default == (), item.name
        assert not option or option.split()[0] in options, item.name


# -- everything in the checkout


def test_no_file_names_a_machine_or_a_registry():
    found = []
    for path in files.walk(CHECKOUT, {}):
        name = path.relative_to(CHECKOUT).as_posix()
        if name.startswith(".") and not name.startswith(".ci/"):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name}: {match[0]}" for match in (HERE_ONLY.search(text), REGISTRIES.search(text)) if match]
    assert not found
