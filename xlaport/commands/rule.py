"""`xlaport rule CODE`: the page of a rule, or a list of all."""

from __future__ import annotations

import argparse
import json

from xlaport.errors import UserError
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="a rule's code or name, such as XP201")
    parser.add_argument("--all", action="store_true", help="list every rule")
    parser.add_argument("--output-format", choices=["text", "json"], default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")


def run(options: argparse.Namespace) -> int:
    rules = load.builtin()
    if not options.all:
        if not options.code:
            raise UserError("name a rule (xlaport rule XP201), or list them with --all")
        rules = tuple(rule for rule in rules if options.code.upper() == rule.code or options.code == rule.name)
        if not rules:
            raise UserError(f"no rule {options.code!r}; xlaport rule --all lists them")
    if options.output_format == "json":
        print(json.dumps({"version": 1, "rules": [as_json(rule) for rule in rules]}, indent=2))
    elif options.all:
        for rule in rules:
            print(f"{rule.code}  {rule.grade.value:<8}  {rule.name}: {rule.summary}")
    else:
        print(page(rules[0]))
    return 0


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
