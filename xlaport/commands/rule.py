"""`xlaport rule CODE`: the page of a rule, or a list of all. `xlaport rule test PATH`: the examples of a user's own pages."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xlaport.errors import UserError, one_line
from xlaport.ruleset import load
from xlaport.ruleset.schema import BadRule, Rule

TEST = "test"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="CODE", help="a rule's code or name, such as XP201; or: test PATH ..., to run the examples of your own rule pages")
    parser.add_argument("--all", action="store_true", help="list every rule")
    parser.add_argument("--output-format", choices=["text", "json"], default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    if options.words[:1] == [TEST]:
        return test(list(map(Path, options.words[1:])), options.output_format)
    rules = load.builtin() if options.all else tuple(map(named, options.words))
    if not rules:
        raise UserError("name a rule (xlaport rule XP201), or list them with --all")
    if options.output_format == "json":
        print(json.dumps({"version": 1, "rules": [as_json(rule) for rule in rules]}, indent=2))
    elif options.all:
        for rule in rules:
            print(f"{rule.code}  {rule.grade.value:<8}  {rule.name}: {rule.summary}")
    else:
        print("\n\n".join(map(page, rules)))
    return 0


def named(word: str) -> Rule:
    rule = next((rule for rule in load.builtin() if word.upper() == rule.code or word == rule.name), None)
    if rule is None:
        raise UserError(f"no rule {word!r}; xlaport rule --all lists them")
    return rule


def page(rule: Rule) -> str:
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n"
    facts = f"grade: {rule.grade.value}; severity: {rule.severity.value}; if left: {rule.danger.value}\n\n"
    return head + facts + rule.page.rstrip()


def as_json(rule: Rule) -> dict:
    return {
        "code": rule.code, "name": rule.name, "summary": rule.summary, "area": rule.area, "intent": rule.intent,
        "severity": rule.severity.value, "danger": rule.danger.value, "grade": rule.grade.value, "since": rule.since,
        "group": rule.group, "references": list(rule.references), "page": rule.page,
    }


def test(paths: list[Path], output_format: str) -> int:
    """Run the examples of rule pages, and the Python code beside them. Exit status 1 when one shows something wrong."""
    from xlaport.ruleset import examples

    if not paths:
        raise UserError("name rule pages or folders of them: xlaport rule test PATH")
    pages = load.pages_below(tuple(paths), code_allowed=True)
    load.own((), tuple(pages))  # codes that are taken
    try:
        problems = [problem for page in pages for problem in examples.check_page(page)]
    except BadRule as error:
        raise UserError(str(error)) from None
    if output_format == "json":
        print(json.dumps({"version": 1, "pages": len(pages), "problems": [problem_as_json(problem) for problem in problems]}, indent=2))
        return int(bool(problems))
    for problem in problems:
        print("\n".join(map(one_line, str(problem).splitlines())))
    print(f"{len(pages)} page{'' if len(pages) == 1 else 's'}, {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return int(bool(problems))


def problem_as_json(problem) -> dict:
    return {"outcome": problem.outcome.value, "file": problem.path.as_posix(), "line": problem.line, "message": problem.message}
