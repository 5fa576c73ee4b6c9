"""The labelled corpus: what the runtime was measured to do at each line of a step, against what lint says of it.

`tests/lint_cases/*.py` are the cases; `bench/lint_truth.py` says how they are read and scored.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import lint_truth  # noqa: E402

CASES = sorted((ROOT / "tests" / "lint_cases").glob("*.py"))


def test_the_corpus_is_there():
    assert len(CASES) >= 149


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_case(case):
    text = case.read_text(encoding="utf-8")
    found = {claim.key for claim in lint_truth.claims(case.stem, text)}
    assert found == lint_truth.expected(case.stem, text)


@pytest.mark.parametrize("case", [case for case in CASES if "\ndef rewrite(" in case.read_text()], ids=lambda path: path.stem)
def test_rewrite_in_the_step_is_silent(case):
    swapped = lint_truth.exchanged(case.read_text(encoding="utf-8"))
    allowed = {line for _, line, _ in lint_truth.expected(case.stem, swapped)}
    assert [claim for claim in lint_truth.claims(case.stem, swapped) if claim.line not in allowed] == []
