"""What `xlaport profile` finds on the labelled corpus, whether it changes what it looks at, and what it costs.

    python bench/profile_truth.py --cases tests/lint_cases --python PY [--only NAME...] [--show] [--update-results]

A case is a file with `# expect: sync|recompile|fallback[,...]` on the guilty lines of its `step()`, as for
`lint_truth.py`. All cases run in one program (`cases_program.py`) that forks a process for each: plainly, and in both
passes of the profile. PY is a Python that has torch_xla.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import results_doc

from xlaport.runtime import program as programs
from xlaport.runtime.job import CAUSES, LINES, Job
from xlaport.runtime.profile import collect
from xlaport.runtime.profile.model import Cause, Line
from xlaport.runtime.program import ROOT, Program

HERE = Path(__file__).resolve().parent
EXPECT = re.compile(r"#\s*expect:\s*([\w,]+)")
PASSES = ("plain", LINES, CAUSES)
NEAR = 2
WANTED_WAITS, WANTED_CAUSES, WANTED_COST = 0.96, 0.85, 2.5
SECONDS = 3600


@dataclass(frozen=True)
class Case:
    """Lines that are labelled, the verdict by pass, and what the profile says."""

    name: str
    waits: frozenset[int]
    recompiles: frozenset[int]
    verdicts: dict[str, str]
    lines: tuple[Line, ...] = ()
    causes: tuple[Cause, ...] = ()
    error: str = ""

    @property
    def found(self) -> set[int]:
        """Lines of the case that waited, or ran an op on the host."""
        return {line.place.line for line in self.lines if Path(line.place.file).stem == self.name and line.total.waits}

    @property
    def explained(self) -> set[int]:
        return {cause.stack[0].line for cause in self.causes if cause.stack and Path(cause.stack[0].file).stem == self.name}

    @property
    def near(self) -> set[int]:
        return {line for line in self.recompiles if any(abs(line - other) <= NEAR for other in self.explained)}


def main() -> int:
    options = arguments()
    files = sorted(file for file in options.cases.resolve().glob("*.py") if not options.only or file.stem in options.only)
    with tempfile.TemporaryDirectory() as work:
        cases = compared(files, Path(work), options.python)
        costs = {} if options.only else cost(Path(work), options.python)
    body = section(cases, costs, options.cases)
    print(body)
    if options.show:
        print("\n".join(shown(case) for case in cases if shown(case)))
    if options.update_results:
        results_doc.replace_section("profile-truth", body)
    good = share(cases, "waits") >= WANTED_WAITS and share(cases, "recompiles") >= WANTED_CAUSES and not changed(cases)
    return 0 if good and all(value < WANTED_COST for value in ratios(costs).values()) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="a Python with torch_xla")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--show", action="store_true", help="print what is missed")
    parser.add_argument("--update-results", action="store_true")
    return parser.parse_args()


def job_of(name: str, work: Path) -> Job:
    """`name` is a pass, with a number behind a dot where it is made several times."""
    return Job(folder=str(work / name), root=str(ROOT), profile=None if name.startswith("plain") else name.split(".")[0])


def watched(name: str, program: Program, work: Path) -> list[tuple[int, list[dict]]]:
    """(process, records) of a run; the plain one has no records."""
    ran = programs.run(program, job_of(name, work), SECONDS)
    if not ran.good:
        raise SystemExit(f"{name}: {ran.reason()}\n{ran.output[-2000:]}")
    files = sorted((work / name).glob("events.*.jsonl"))
    return [(int(file.name.split(".")[2]), [json.loads(line) for line in file.read_text().splitlines()]) for file in files]


# -- what is found


def compared(files: list[Path], work: Path, python: str) -> list[Case]:
    records: dict[str, dict[int, list[dict]]] = {}
    results: dict[str, dict[str, dict]] = {}
    for name in PASSES:
        out = work / f"{name}.out"
        out.mkdir()
        program = Program(HERE / "cases_program.py", (str(out), *map(str, files)), python)
        records[name] = dict(watched(name, program, work))
        results[name] = {file.stem: json.loads((out / f"{file.stem}.json").read_text()) for file in files}
    return [case(file, {name: results[name][file.stem] for name in PASSES}, records, work) for file in files]


def case(file: Path, results: dict[str, dict], records: dict[str, dict[int, list[dict]]], work: Path) -> Case:
    waits, recompiles = labels(file)
    error = next((result["error"] for result in results.values() if "error" in result), "")
    if error:
        return Case(file.stem, waits, recompiles, {}, error=error.strip().splitlines()[-1])
    own = {name: records[name].get(results[name]["pid"], []) for name in PASSES[1:]}
    libraries = next(record for stream in records[CAUSES].values() for record in stream if record["kind"] == "device")
    lines = collect.lines(own[LINES])
    causes = collect.causes([libraries, *own[CAUSES]], job_of(CAUSES, work).kept_graphs)
    return Case(file.stem, waits, recompiles, {name: verdict(result) for name, result in results.items()}, lines, causes)


def labels(file: Path) -> tuple[frozenset[int], frozenset[int]]:
    """Lines marked as syncs or fallbacks, and as causes of recompilation."""
    marked = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        match = EXPECT.search(line)
        if match and not line.lstrip().startswith("#"):
            marked[number] = set(match[1].split(","))
    return (
        frozenset(number for number, kinds in marked.items() if kinds & {"sync", "fallback"}),
        frozenset(number for number, kinds in marked.items() if "recompile" in kinds),
    )


def verdict(result: dict) -> str:
    """What the second half of the steps did, by counters read outside of the step."""
    half = len(result["inside"]) // 2
    inside, after = result["inside"][half:], result["after"][half:]
    waits = any(step.get(name) for step in inside for name in ("reads", "UncachedCompile", "CachedCompile", "MarkStep"))
    compiles = any(step.get("UncachedCompile") for step in (*inside, *after))
    fallbacks = sorted({name for step in (*inside, *after) for name in step if "::" in name and "_local_scalar_dense" not in name})
    reads = sum(step.get("reads", 0) for step in (*inside, *after))
    compiled = sum(step.get("UncachedCompile", 0) for step in (*result["inside"], *result["after"]))
    return f"{waits} {compiles} {fallbacks} {reads} reads {compiled} compiled"


def share(cases: list[Case], kind: str) -> float:
    total = sum(len(getattr(case, kind)) for case in cases)
    return sum(len(hits(case, kind)) for case in cases) / total if total else 1.0


def hits(case: Case, kind: str) -> set[int]:
    return set(case.waits & case.found) if kind == "waits" else case.near


def changed(cases: list[Case]) -> list[str]:
    return [case.name for case in cases if len(set(case.verdicts.values())) > 1]


def shown(case: Case) -> str:
    parts = [case.error] if case.error else []
    parts += [f"missed wait {line}" for line in sorted(case.waits - case.found)]
    parts += [f"unlabelled wait {line}" for line in sorted(case.found - case.waits)]
    parts += [f"missed cause {line}" for line in sorted(case.recompiles - case.near)]
    parts += [f"cause {c.stack[0].line if c.stack else '-'}: {c.text} steps {c.steps}" for c in case.causes] if case.recompiles - case.near else []
    parts += [f"verdicts {case.verdicts}"] if len(set(case.verdicts.values())) > 1 else []
    return f"{case.name}: " + "; ".join(parts) if parts else ""


# -- what it costs


def cost(work: Path, python: str) -> dict[str, list[float]]:
    """Milliseconds a step by pass, three times each, in turn."""
    found: dict[str, list[float]] = {name: [] for name in PASSES}
    for turn in range(3):
        for name in PASSES:
            out = work / f"{name}.{turn}.ms"
            watched(f"{name}.{turn}", Program(HERE / "plain_steps.py", (str(out),), python), work)
            found[name].append(float(out.read_text()))
    return found


def ratios(costs: dict[str, list[float]]) -> dict[str, float]:
    """The fastest of each pass against the fastest plain run: what else the machine does only adds."""
    return {name: min(costs[name]) / min(costs["plain"]) for name in costs if name != "plain"}


def section(cases: list[Case], costs: dict[str, list[float]], folder: Path) -> str:
    waits, causes = sum(len(case.waits) for case in cases), sum(len(case.recompiles) for case in cases)
    silent = [case for case in cases if not case.waits and not case.recompiles]
    false = sum(bool(case.found) for case in silent)
    exact = sum(len(case.recompiles & case.explained) for case in cases)
    rows = [
        (f"labelled sync and fallback lines found (of {waits})", f"{share(cases, 'waits'):.3f}", f"at least {WANTED_WAITS}"),
        (f"labelled recompilation lines found within {NEAR} lines (of {causes}; {exact} exactly)", f"{share(cases, 'recompiles'):.3f}", f"at least {WANTED_CAUSES}"),
        (f"cases without a labelled line in which a line is said to wait (of {len(silent)})", str(false), "0"),
        (f"cases whose counts change under a pass (of {len(cases)})", str(len(changed(cases))), "0"),
        ("cases that do not run", str(sum(bool(case.error) for case in cases)), "0"),
    ]
    for name, value in ratios(costs).items():
        rows.append((f"processor time of a step in the pass `{name}` / plain ({min(costs['plain']):.1f} ms)", f"{value:.2f}", f"under {WANTED_COST}"))
    return "\n".join([
        "## What the profile finds on the labelled corpus",
        "",
        f"`python bench/profile_truth.py --cases {folder.as_posix()} --update-results`: each case run plainly and in both passes of",
        "`xlaport profile`, on XLA:CPU; counts are transfers, compilations and ops on the host, read outside of the step.",
        "",
        results_doc.table(("figure", "value", "wanted"), rows),
        "",
    ])


if __name__ == "__main__":
    sys.exit(main())
