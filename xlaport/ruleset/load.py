"""Reads rule pages from disk."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from xlaport.errors import UserError
from xlaport.ruleset.fronts import Compiled
from xlaport.ruleset.schema import BadRule, Rule, parts_of, rule_from
from xlaport.targets import PROFILES

FUNCTION = re.compile(r"(check|fix)(_\w+)?")
"""`check`, which finds; `fix`, which says what to do about an event; `check_torchtpu` where a target differs in structure."""

Functions = Callable[[Path, dict], dict[str, Callable]]
"""The functions of a Python file, given the front matter of the page beside it."""

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
Page = TypeVar("Page")
"""What has a `code` and the `path` of its page: a rule, or an entry of `xlaport.explain`."""


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page: what stands behind its backticks, and its text; `line` is that of the text's first line."""

    info: str
    text: str
    line: int


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
    folder = rules_folder()
    pages = Compiled(folder, lambda page: split(page)[0]).fronts()
    if not pages:
        raise UserError(f"{folder}: holds no rules; install xlaport again")
    return by_code(rule_with(front, folder / name, later if has_code else no_functions) for name, front, has_code in pages)


def by_code(pages: Iterable[Page]) -> tuple[Page, ...]:
    """Sorted by code. Raises `BadRule` for a code that two pages have."""
    found = sorted(pages, key=lambda page: page.code)
    for first, second in zip(found, found[1:]):
        if first.code == second.code:
            raise BadRule(f"{second.path}: code {second.code} is taken by {first.path}")
    return tuple(found)


def seen_on(rules: Iterable[Rule], target: str, source: str) -> tuple[Rule, ...]:
    """The rules as they are on a target, for programs of CUDA and, beside it, of `source`."""
    if target in PROFILES and PROFILES[target].only_reports:
        rules = (rule for rule in rules if target in rule.targets)
    there = (rule.on(target, Later) for rule in rules)
    return tuple(rule for rule in there if rule is not None and (rule.source == source or rule.source == "cuda" and not rule.alone))


@lru_cache(maxsize=8)
def own(data: tuple[Path, ...], with_code: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """A user's own rules, files or folders: those in `data` may not bring Python code. Raises `UserError`."""
    taken = {rule.code: rule.path for rule in builtin()}
    found = [loaded(page, no_functions) for page in pages_below(data, code_allowed=False)]
    found += [loaded(page, functions_of) for page in pages_below(with_code, code_allowed=True)]
    for rule in found:
        if rule.code in taken:
            raise UserError(f"{rule.path}: code {rule.code} is taken by {taken[rule.code]}")
        taken[rule.code] = rule.path
    return tuple(sorted(found, key=lambda rule: rule.code))


def loaded(page: Path, code: Functions) -> Rule:
    """`load` for a page that someone else wrote: whatever is wrong with it is one line."""
    try:
        return load(page, code)
    except BadRule as error:
        raise UserError(str(error)) from None
    except Exception as error:  # noqa: BLE001 - the code of a rule may fail in any way
        raise UserError(f"{page}: cannot be loaded: {error!r}") from None


def pages_below(paths: tuple[Path, ...], code_allowed: bool) -> list[Path]:
    """Rule pages of files and folders; a rule's `.py` stands for its page."""
    found: list[Path] = []
    for path in paths:
        pages = sorted(path.rglob("*.md")) if path.is_dir() else [path.with_suffix(".md")]
        missing = next((page for page in pages if not page.is_file()), path if not pages else None)
        if missing:
            raise UserError(f"{missing}: no rule page there")
        found += pages
    with_code = next((page for page in found if not code_allowed and page.with_suffix(".py").exists()), None)
    if with_code:
        raise UserError(f"{with_code.with_suffix('.py')}: a configuration may not run code; load this rule with --python-rules")
    return found


def load(path: Path, code: Functions | None = None) -> Rule:
    """A rule from its page; `code` gives the functions of the Python file beside it, which is run without."""
    front, _ = split(path)
    return rule_with(front, path, (code or functions_of) if path.with_suffix(".py").exists() else no_functions)


def rule_with(front: dict, path: Path, code: Functions) -> Rule:
    functions = code(path.with_suffix(".py"), front)
    return rule_from(front, path, functions.get("check"), functions.get("fix"))


def split(path: Path) -> tuple[dict, str]:
    """Front matter between `+++` lines, and the page below it."""
    import tomllib  # here, as pages are read from TOML once: 4 ms

    parts = parts_of(path)
    try:
        return tomllib.loads(parts[1]), parts[2].strip() + "\n"
    except tomllib.TOMLDecodeError as error:
        raise BadRule(f"{path}: {error}") from None


def fences(path: Path) -> Iterator[Fence]:
    """The fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Fence(found["info"].strip(), found["text"], text.count("\n", 0, found.start("text")) + 1)


def no_functions(path: Path, front: dict) -> dict[str, Callable]:
    return {}


def later(path: Path, front: dict) -> dict[str, Callable]:
    """The function of a file that is run when it is first called: few rules have to do with any one file.

    A rule for events may have a `fix`, every other one has a `check`.
    """
    name = "fix" if front.get("match", {}).get("event") else "check"
    return {name: Later(path, name)}


@dataclass(frozen=True)
class Later:
    path: Path
    name: str

    def __call__(self, *arguments):
        return run_once(self.path)[self.name](*arguments)


@lru_cache(maxsize=None)
def run_once(path: Path) -> dict[str, Callable]:
    return functions_of(path, {})


def functions_of(path: Path, front: dict) -> dict[str, Callable]:
    """`check`, which finds; `fix`, which says what to do about an event of the step."""
    name = "xlaport_rule_" + path.stem.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {name: member for name, member in vars(module).items() if FUNCTION.fullmatch(name) and callable(member)}
    if not found:
        raise BadRule(f"{path}: no function `check` or `fix`")
    return found


def refuse_unknown(codes: Iterable[str], rules: Iterable[Rule]) -> None:
    """Raises `UserError` for a code or prefix that selects none of the rules."""
    known = [rule.code for rule in rules]
    for code in codes:
        if not any(name.startswith(code) for name in known):
            raise UserError(f"no rule starts with {code!r}; xlaport rule --all lists them")
