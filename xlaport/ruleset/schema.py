"""The shape of a rule's front matter. Unknown keys are errors, so that a typo cannot disable a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from xlaport.findings import Danger, Effect, Grade, Severity

if TYPE_CHECKING:
    from xlaport.analysis.text import LazyPattern

AREAS = ("tool", "device", "step", "shapes", "branches", "syncs", "precision", "distributed", "data", "wrong")

EFFORTS = ("minutes", "hours", "days")


class BadRule(Exception):
    """A rule file that does not follow the schema: names the file and the key."""


@dataclass(frozen=True)
class Match:
    """Conditions in data. All qualified names are canonical (`torch.cuda.amp.autocast`).

    `call`: the function called. `reference`: named without being called. `imports`: a module imported,
    or anything below it. `library`: a module that is not of the project: its imports, and every use of what is below it. `text`: a regular expression the file's text must contain for a Python rule to run.
    A name that ends in `.*` covers everything below it that no other rule names.
    `event`: kinds of events of the step (`xlaport.analysis.flow`), which `lint` alone looks for.
    `files`: the kinds of project files (requirements, shell, yaml, ...) `xlaport.projectfiles` looks for the rule in.
    """

    call: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    library: tuple[str, ...] = ()
    text: str = ""
    event: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> LazyPattern | None:
        from xlaport.analysis.text import LazyPattern  # here, as an answer that is kept needs none of the analysis

        return LazyPattern(self.text) if self.text else None


@dataclass(frozen=True)
class Replace:
    """What takes the idiom's place.

    `expr`: a template; `{arg0}`, `{args}`, `{kw_NAME}` are parts of the call, `{device}` ... the target's.
    `drop`: remove the statement, decorator or `with` item; where a value is needed, `value` stands in.
    `remove` / `set`: keywords of the call.
    """

    expr: str = ""
    drop: bool = False
    value: str = ""
    remove: tuple[str, ...] = ()
    set: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OnTarget:
    """What a page says in `[target.NAME]`: where a rule differs on that target. All else stays.

    `skip`: there is nothing to find there. `manual`: what is found is left to a person, with this sentence.
    `replace`: what takes the idiom's place, also where a Python file finds it. `check` / `fix`: the function of the
    same-stem file that takes the place of `check` or `fix`. `captured`: the severity where torch.compile captures what it finds.
    """

    skip: bool = False
    manual: str = ""
    replace: Replace | None = None
    check: str = ""
    fix: str = ""
    summary: str = ""
    severity: Severity | None = None
    captured: Severity | None = None
    danger: Danger | None = None
    grade: Grade | None = None
    advice: dict[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule. `check` is the function of the same-stem Python file, None for a rule in data."""

    code: str
    name: str
    summary: str
    area: str
    severity: Severity
    danger: Danger
    grade: Grade
    intent: str
    since: str
    group: str | None
    references: tuple[str, ...]
    match: Match
    replace: Replace | None
    advice: dict[str, str]
    """Qualified name, or the start of one -> the message at a use of it."""

    path: Path
    effort: str = ""
    """One of `EFFORTS`: what a person has to do with one place, where hours is not the word."""

    effects: tuple[Effect, ...] = ()
    """What the runtime was measured to do there; a finding may say otherwise."""

    check: Callable | None = field(default=None, repr=False)
    fix: Callable | None = field(default=None, repr=False)
    """`fix(context, event)` of the same file gives the `Fix` of an event, or None."""

    source: str = "cuda"
    """What code it speaks of: of CUDA, or of another target that is ported from."""

    alone: bool = False
    """Whether it has nothing to say where code for another target is ported beside that of `source`."""

    targets: tuple[str, ...] = ()
    """The targets it exists for; all without any."""

    differing: dict[str, OnTarget] = field(default_factory=dict, repr=False)
    instead: Replace | None = None
    """What takes the place of everything the rule finds, whatever its Python file says."""

    captured: Severity | None = None
    """The severity where torch.compile captures what an event rule finds; None where that makes no difference."""

    left_with: str = ""
    """The sentence with which everything the rule finds is left to a person."""

    @cached_property
    def page(self) -> str:
        """The text below the front matter, read when it is asked for."""
        return parts_of(self.path)[2].strip() + "\n"

    def on(self, target: str, function: Callable[[Path, str], Callable]) -> Rule | None:
        """The rule as it is on a target; None where it has nothing to say.

        `function(path, name)` gives the function `name` of the Python file `path`.
        """
        if self.targets and target not in self.targets:
            return None
        there = self.differing.get(target)
        if there is None:
            return self
        if there.skip:
            return None
        said = {name: value for name in ("summary", "severity", "captured", "danger", "grade") if (value := getattr(there, name))}
        if there.advice:
            said["advice"] = {**self.advice, **there.advice}
        for kind in ("check", "fix"):
            if name := getattr(there, kind):
                said[kind] = function(self.path.with_suffix(".py"), name)
        if there.manual:
            said |= {"grade": Grade.MANUAL, "left_with": there.manual, "replace": None}
        if there.replace is not None:
            said |= {"replace": there.replace} if self.check is None else {"instead": there.replace}
        return replace(self, **said)


REQUIRED = {"code", "name", "summary", "area", "severity", "danger", "grade", "intent", "since"}
OPTIONAL = {"group", "references", "match", "replace", "advice", "effects", "effort", "source", "alone", "targets", "target"}


def check_keys(front: dict, required: set[str], optional: set[str], path: Path) -> None:
    """Raises `BadRule` for a front matter that lacks a key or has one that means nothing."""
    missing, unknown = required - front.keys(), front.keys() - required - optional
    if missing or unknown:
        raise BadRule(f"{path}: missing {sorted(missing)}, unknown {sorted(unknown)}")


def parts_of(path: Path) -> list[str]:
    """What stands before, between and below the `+++` lines of a page. Raises `BadRule` without them."""
    parts = path.read_text(encoding="utf-8").split("+++\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise BadRule(f"{path}: no front matter between +++ lines")
    return parts


def rule_from(front: dict, path: Path, check: Callable | None = None, fix: Callable | None = None) -> Rule:
    """Build a rule from its parsed front matter. Raises `BadRule`."""
    check_keys(front, REQUIRED, OPTIONAL, path)
    if front["area"] not in AREAS:
        raise BadRule(f"{path}: area {front['area']!r} is none of {', '.join(AREAS)}")
    if front.get("effort", EFFORTS[0]) not in EFFORTS:
        raise BadRule(f"{path}: effort {front['effort']!r} is none of {', '.join(EFFORTS)}")
    try:
        return Rule(
            code=front["code"],
            name=front["name"],
            summary=front["summary"],
            area=front["area"],
            severity=Severity(front["severity"]),
            danger=Danger(front["danger"]),
            grade=Grade(front["grade"]),
            intent=front["intent"],
            since=front["since"],
            group=front.get("group"),
            references=tuple(front.get("references", ())),
            match=match_from(front.get("match", {})),
            replace=replace_from(front["replace"]) if "replace" in front else None,
            advice=front.get("advice", {}),
            effort=front.get("effort", ""),
            effects=tuple(map(Effect, front.get("effects", ()))),
            path=path,
            check=check,
            fix=fix,
            source=front.get("source", "cuda"),
            alone=front.get("alone", False),
            targets=tuple(front.get("targets", ())),
            differing={name: on_target_from(table) for name, table in front.get("target", {}).items()},
        )
    except (TypeError, ValueError) as error:
        raise BadRule(f"{path}: {error}") from None


def match_from(table: dict) -> Match:
    names = {"call", "reference", "imports", "library", "event", "files"}
    return Match(**{key: tuple(value) if key in names else value for key, value in table.items()})


def on_target_from(table: dict) -> OnTarget:
    kinds = {"severity": Severity, "captured": Severity, "danger": Danger, "grade": Grade, "replace": replace_from}
    return OnTarget(**{key: kinds[key](value) if key in kinds else value for key, value in table.items()})


def replace_from(table: dict) -> Replace:
    return Replace(**{key: tuple(value) if key == "remove" else value for key, value in table.items()})
