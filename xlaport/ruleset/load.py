"""Reads rule pages from disk."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from xlaport.errors import UserError
from xlaport.ruleset.schema import BadRule, Rule, rule_from


def rules_folder() -> Path:
    """`rules/`: inside the package in a wheel, beside it in a checkout or editable install."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "rules"
    if (package.parent / "pyproject.toml").is_file() and beside.is_dir():
        return beside
    return package / "_rules"


@lru_cache(maxsize=1)
def builtin() -> tuple[Rule, ...]:
    """The rules xlaport ships, sorted by code. Raises `BadRule` for a page that breaks the schema, `UserError` without any."""
    pages = sorted(path for path in rules_folder().rglob("*.md") if path.parent.name != "errors")
    if not pages:
        raise UserError(f"{rules_folder()}: holds no rules; install xlaport again")
    rules = sorted((load(path) for path in pages), key=lambda rule: rule.code)
    for first, second in zip(rules, rules[1:]):
        if first.code == second.code:
            raise BadRule(f"{second.path}: code {second.code} is taken by {first.path}")
    return tuple(rules)


def load(path: Path) -> Rule:
    front, page = split(path)
    code_file = path.with_suffix(".py")
    check = load_check(code_file) if code_file.exists() else None
    return rule_from(front, path, page, check)


def split(path: Path) -> tuple[dict, str]:
    """Front matter between `+++` lines, and the page below it."""
    text = path.read_text(encoding="utf-8")
    parts = text.split("+++\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise BadRule(f"{path}: no front matter between +++ lines")
    try:
        return tomllib.loads(parts[1]), parts[2].strip() + "\n"
    except tomllib.TOMLDecodeError as error:
        raise BadRule(f"{path}: {error}") from None


def load_check(path: Path) -> Callable:
    name = "xlaport_rule_" + path.stem.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "check", None)):
        raise BadRule(f"{path}: no function `check`")
    return module.check
