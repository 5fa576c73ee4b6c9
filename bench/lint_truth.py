"""Recall and precision of `lint` on a labelled corpus, by line and kind of effect.

    python bench/lint_truth.py --cases FOLDER [--show] [--update-results]

A case is a file with `# expect: sync|recompile|fallback[,...]` on the lines that are guilty in its `step()`; other
lines, and those of its `rewrite()`, must stay silent. `fallback` implies `sync`. Each case is also scored with its two
functions exchanged, so that the rewrite runs in the step. Notes do not count.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import results_doc

from xlaport import engine
from xlaport.analysis.project import Project
from xlaport.config import Settings
from xlaport.findings import Confidence, Effect, Severity
from xlaport.source import SourceFile

EXPECT = re.compile(r"#\s*expect:\s*([\w,]+)")
SCORED = {Effect.SYNC, Effect.RECOMPILE, Effect.FALLBACK}
WANTED = 0.98


@dataclass(frozen=True)
class Claim:
    """One effect at one line of one case."""

    case: str
    line: int
    effect: str
    certain: bool = True

    @property
    def key(self) -> tuple[str, int, str]:
        return self.case, self.line, self.effect


def expected(case: str, text: str) -> set[tuple[str, int, str]]:
    found = set()
    for number, line in enumerate(text.splitlines(), start=1):
        match = EXPECT.search(line)
        effects = set(match[1].split(",")) if match else set()
        found |= {(case, number, effect) for effect in effects | ({"sync"} if "fallback" in effects else set())}
    return found


def claims(case: str, text: str) -> list[Claim]:
    root = Path("/case")
    path = root / f"{case}.py"
    project = Project(root, {path: SourceFile.from_bytes(path, path.name, text.encode())})
    found = []
    for finding in engine.findings_in(project, path, Settings(), lint=True):
        if finding.severity is not Severity.NOTE:
            certain = finding.confidence is Confidence.CERTAIN
            found += [Claim(case, finding.location.line, effect.value, certain) for effect in finding.effects if effect in SCORED]
    return found


def exchanged(text: str) -> str:
    """The case with `rewrite` as its step; empty without one. Hooks and classes keep their marks: they may run, or not."""
    if not re.search(r"^def rewrite\(", text, re.M):
        return ""
    text = re.sub(r"^def step\(.*?(?=^\S|\Z)", lambda body: EXPECT.sub("", body[0]), text, flags=re.M | re.S)
    text = re.sub(r"^def step\(", "def unused(", text, flags=re.M)
    return re.sub(r"^def rewrite\(", "def step(", text, flags=re.M)


def section(wanted: int, made: int, recall: float, precision: float, certain: float, likely: list[bool]) -> str:
    return "\n".join([
        "## What lint says of the labelled corpus",
        "",
        "`python bench/lint_truth.py --cases tests/lint_cases --update-results`: each effect at each line of a step, as measured on XLA:CPU,",
        f"against the findings; the rewrites must stay silent. {wanted} effects to find, {made} found.",
        "",
        results_doc.table(("figure", "value", "wanted"), [
            ("recall", f"{recall:.3f}", f"at least {WANTED}"),
            ("precision", f"{precision:.3f}", f"at least {WANTED}"),
            ("certain among the right ones", f"{certain:.2f}", "at least 0.8"),
            ("right among the likely ones", f"{sum(likely)} of {len(likely)}", "at least 0.6"),
        ]),
        "",
    ])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--update-results", action="store_true", help="write the figures to docs/results.md")
    parser.add_argument("--show", action="store_true", help="print what is missed and what is wrong")
    options = parser.parse_args()
    wanted: set[tuple[str, int, str]] = set()
    made: list[Claim] = []
    for file in sorted(options.cases.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        wanted |= expected(file.stem, text)
        made += claims(file.stem, text)
        swapped = exchanged(text)
        allowed = {line for _, line, _ in expected(file.stem, swapped)}
        made += [claim for claim in claims(f"{file.stem}~rewrite", swapped) if claim.line not in allowed] if swapped else []
    right = [claim for claim in made if claim.key in wanted]
    wrong = [claim for claim in made if claim.key not in wanted]
    missed = wanted - {claim.key for claim in made}
    if options.show:
        for claim in sorted(wrong, key=lambda c: c.key):
            print("wrong ", *claim.key, "certain" if claim.certain else "likely")
        for key in sorted(missed):
            print("missed", *key)
    recall = 1 - len(missed) / len(wanted)
    precision = len({c.key for c in right}) / max(len({c.key for c in made}), 1)
    certain = sum(claim.certain for claim in right) / max(len(right), 1)
    likely = [claim.key in wanted for claim in made if not claim.certain]
    print(f"recall {recall:.3f} ({len(wanted)} lines x effects), precision {precision:.3f} ({len(made)} claims)")
    print(f"certain among the right ones {certain:.2f}; right among the likely ones {sum(likely) / max(len(likely), 1):.2f} of {len(likely)}")
    if options.update_results:
        results_doc.replace_section("lint-truth", section(len(wanted), len(made), recall, precision, certain, likely))
    by_effect = Counter(effect for _, _, effect in missed), Counter(claim.effect for claim in wrong)
    print(f"missed by effect {dict(by_effect[0])}; wrong by effect {dict(by_effect[1])}")
    return 0 if min(recall, precision) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
