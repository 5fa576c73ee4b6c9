"""SARIF 2.1.0: findings with the help of their rules and their fixes, for code scanning."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

from xlaport import __version__
from xlaport.diagnostics import Diagnostic, LintReport, TextEdit
from xlaport.ruleset import load
from xlaport.ruleset.schema import Rule

if TYPE_CHECKING:
    from xlaport.reports.migrate.model import RuleNote

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
WHOLE = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1}
"""Where a finding in a notebook is: lines and edits count in a cell, which SARIF has no word for."""


def lint(report: LintReport, out: TextIO) -> None:
    print(json.dumps(document(report, load.builtin()), indent=2), file=out)


def document(report: LintReport, known: Iterable[Rule | RuleNote]) -> dict:
    """`known`: rules, of which those that found something are described."""
    names = {found.code: found.name for found in report.diagnostics}
    pages = {rule.code: rule for rule in known}
    rules = [descriptor(code, names[code], pages.get(code)) for code in sorted(names)]
    places = {rule["id"]: index for index, rule in enumerate(rules)}
    driver = {"name": "xlaport", "semanticVersion": __version__, "rules": rules}
    seen: Counter[tuple] = Counter()
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{
            "executionSuccessful": not report.failures,
            "toolExecutionNotifications": [{"level": "error", "message": {"text": failure}} for failure in report.failures],
        }],
        "results": [result(found, places[found.code], seen) for found in report.diagnostics],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def descriptor(code: str, name: str, rule: Rule | RuleNote | None) -> dict:
    found = {"id": code, "name": "".join(word.capitalize() for word in name.split("-"))}
    if rule is None:
        return found
    return found | {
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": [rule.area]},
    }


def result(found: Diagnostic, rule: int, seen: Counter[tuple]) -> dict:
    where = {"artifactLocation": artifact(found), "region": region(found) if not found.cell else WHOLE}
    made = {
        "ruleId": found.code,
        "ruleIndex": rule,
        "level": found.severity,
        "message": {"text": f"cell {found.cell}:{found.line}:{found.column}: {found.message}" if found.cell else found.message},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {"lineAndCode/v1": fingerprint(found, seen)},
        "properties": {"effects": list(found.effects), "confidence": found.confidence},
    }
    return made | ({"fixes": [fix(found)]} if found.fix and found.fix.edits and not found.cell else {})


def fingerprint(found: Diagnostic, seen: Counter[tuple]) -> str:
    """The same for the same line after it has moved; like lines are counted."""
    key = found.file, found.code, found.text
    seen[key] += 1
    return hashlib.sha256("\n".join([*key, str(seen[key])]).encode(errors="surrogateescape")).hexdigest()[:32]


def artifact(found: Diagnostic) -> dict:
    path = Path(found.file)
    return {"uri": path.as_uri() if path.is_absolute() else quote(found.file, errors="surrogateescape")}


def region(place: Diagnostic | TextEdit) -> dict:
    return {"startLine": place.line, "startColumn": place.column, "endLine": place.end_line, "endColumn": place.end_column}


def fix(found: Diagnostic) -> dict:
    replacements = [{"deletedRegion": region(edit), "insertedContent": {"text": edit.content}} for edit in found.fix.edits]
    return {
        "description": {"text": f"{found.fix.applicability} fix of {found.code}"},
        "artifactChanges": [{"artifactLocation": artifact(found), "replacements": replacements}],
    }
