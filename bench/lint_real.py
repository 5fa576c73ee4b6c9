"""What `lint` says of migrated scripts, against the lines on which they really waited for the device.

    python bench/lint_real.py --ports FOLDER --drivers FOLDER_OF_RUN_SH --work SCRATCH --python PY [--only NAME...]

FOLDER holds the ports `bench/real_scripts.py` made (WORK/real-scripts). Each script runs on XLA:CPU with torch_xla's
counters read at every line (`lines_probe.py`). After warm-up (half of the steps) a line is guilty when a value was read
from the device or an op ran on the host there; lines of `.backward()` and of steps carry what autograd and optimizers
do, and are left out, as are graphs compiled, whose cause is another line. A statement of several lines counts as one.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import results_doc
import scripts

from xlaport import config, engine, files
from xlaport.analysis.project import Project
from xlaport.findings import Confidence, Effect
from xlaport.lint.lines import statement_starts
from xlaport.source import SourceFile

PROBE = Path(__file__).resolve().with_name("lines_probe.py")
WARM_UP = {"ex_fsdp2": 5, "detr": 5}
STEPS_SKIPPED = 10
FOUND, REAL = 0.95, 0.9
WAITS = {Effect.SYNC, Effect.FALLBACK}
STEPPING = ("backward", "step", "optimizer_step", "sync", "mark_step")


@dataclass(frozen=True)
class Comparison:
    """Statements of one script that ran after warm-up: guilty ones, those found, certain findings, those real."""

    name: str
    guilty: frozenset[str] = frozenset()
    found: frozenset[str] = frozenset()
    certain: frozenset[str] = frozenset()
    real: frozenset[str] = frozenset()
    problem: str = ""


def main() -> int:
    options = arguments()
    chosen = [script for script in scripts.listed(options.drivers) if not options.only or script.name in options.only]
    rows = [compare(script, options) for script in chosen]
    body = section(rows)
    print(body)
    if options.update_results:
        results_doc.replace_section("lint-real", body)
    return 0 if rate(rows, "found", "guilty") >= FOUND and rate(rows, "real", "certain") >= REAL else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", type=Path, required=True)
    parser.add_argument("--drivers", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one script")
    parser.add_argument("--kept", action="store_true", help="take the lines an earlier run recorded in SCRATCH for the same ports")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    for name in ("ports", "drivers", "work", "python"):
        setattr(options, name, Path(os.path.abspath(getattr(options, name))))
    return options


def compare(script: scripts.Script, options: argparse.Namespace) -> Comparison:
    lines = traced(script, options)
    if not lines:
        return Comparison(script.name, problem="no lines recorded")
    folders = {place.split("/", 1)[0] for place in lines}
    said, certain, starts = {}, set(), {}
    for folder in folders:
        for name, found in findings(options.ports / folder).items():
            tree = ast.parse((options.ports / folder / name).read_bytes())
            starts |= {f"{folder}/{name}:{line}": f"{folder}/{name}:{first}" for line, first in statement_starts(tree).items()}
            for finding in found:
                place = f"{folder}/{name}:{finding.location.line}"
                said[starts.get(place, place)] = True
                if finding.confidence is Confidence.CERTAIN:
                    certain.add(starts.get(place, place))
    ran, guilty = set(), set()
    for place, counts in lines.items():
        start = starts.get(place, place)
        ran |= {start} if counts["runs"] else set()
        if counts["runs"] and (counts["reads"] or counts["fallbacks"]) and not is_stepping(options.ports, start):
            guilty.add(start)
    known = frozenset(certain & ran)
    return Comparison(script.name, frozenset(guilty), frozenset(guilty & said.keys()), known, frozenset(known & guilty))


def traced(script: scripts.Script, options: argparse.Namespace) -> dict[str, dict[str, int]]:
    folder = scripts.prepare(options.drivers, options.work)
    out = options.work / "lines" / f"{script.name}.json"
    if options.kept and out.exists():
        return json.loads(out.read_text())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    skip = WARM_UP.get(script.name, STEPS_SKIPPED)
    environment = {
        **os.environ, "CORPUS": str(options.ports), "WORK": str(options.work), "PY": str(options.python), "PROBE": str(PROBE),
        "LIMIT": str(options.limit), "XLAPORT_LINES": json.dumps({"out": str(out), "root": str(options.ports), "skip": skip}),
    }
    subprocess.run(["bash", str(folder / "run.sh"), "--xla", script.name], env=environment, check=False, capture_output=True)
    return json.loads(out.read_text()) if out.exists() else {}


def findings(folder: Path) -> dict[str, list]:
    """File below `folder` -> findings that say a line waits for the device."""
    tree = files.find([folder])
    paths = [path for path in tree.files if path.suffix == ".py"]
    sources = {path: SourceFile.from_bytes(path, path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths}
    found = engine.findings(Project(folder, sources), paths, config.Settings(), lint=True)
    return {sources[path].name: [f for f in found[path] if WAITS & set(f.effects)] for path in paths}


def is_stepping(ports: Path, place: str) -> bool:
    """A line that ends a step, or runs autograd."""
    name, _, line = place.rpartition(":")
    text = (ports / name).read_text(encoding="utf-8", errors="replace").splitlines()[int(line) - 1]
    return any(f"{word}(" in text for word in STEPPING)


def rate(rows: list[Comparison], part: str, whole: str) -> float:
    total = sum(len(getattr(row, whole)) for row in rows)
    return sum(len(getattr(row, part)) for row in rows) / total if total else 1.0


def section(rows: list[Comparison]) -> str:
    table = [
        (row.name, str(len(row.guilty)), str(len(row.found)), str(len(row.certain)), str(len(row.real)), row.problem or missed(row))
        for row in rows
    ]
    return "\n".join([
        "## What lint says of real scripts",
        "",
        "`python bench/lint_real.py --update-results ...`: statements of the ports that ran after warm-up on XLA:CPU, and on which a",
        f"value was read from the device or an op ran on the host. Found: {rate(rows, 'found', 'guilty'):.2f} (wanted {FOUND});",
        f"certain findings on lines that ran that are real: {rate(rows, 'real', 'certain'):.2f} (wanted {REAL}).",
        "",
        results_doc.table(("script", "guilty", "found", "certain and run", "real", "missed / not real"), table),
        "",
    ])


def missed(row: Comparison) -> str:
    names = [f"missed {short(place)}" for place in sorted(row.guilty - row.found)]
    names += [f"not real {short(place)}" for place in sorted(row.certain - row.real)]
    return ", ".join(names)


def short(place: str) -> str:
    return place.split("/", 1)[-1]


if __name__ == "__main__":
    sys.exit(main())
