"""Migrate public training scripts and run them: the original on CPU, several draws; the port on XLA:CPU.

    python bench/real_scripts.py --corpus CHECKOUTS --drivers FOLDER_OF_RUN_SH --work SCRATCH --python PY [--only NAME...]

CHECKOUTS holds folders named OWNER_REPO. PY is a Python with torch, torch_xla and what the scripts need; `xlaport`
itself is run by the Python that runs this file. CPU runs are kept in SCRATCH and used again unless --fresh is given.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import child
import losses
import results_doc
import scripts
from scripts import Run, Script, Setting

ALLOWED = 3.0
"""A port's deviation from the CPU run over the CPU program's own spread."""
WARM_UP = 0.5
"""Share of the optimizer steps after which no graph should be new."""
COLUMNS = (
    "script", "ran", "losses / parameters on", "parameters changed (CPU)", "steps", "executions", "compilations by step",
    "after warm-up", "max scaled Δ", "CPU spread", "Δ / spread", "verdict",
)


@dataclass(frozen=True)
class Migration:
    """A migrated checkout: where it is, the text of its report, what the command said when it failed."""

    folder: Path
    report: str
    problem: str = ""


@dataclass(frozen=True)
class Result:
    """One script: its CPU runs (the first is the base), its run on XLA and the reports of its checkouts."""

    script: Script
    cpu: tuple[Run, ...]
    xla: Run
    migrations: tuple[Migration, ...]


@dataclass(frozen=True)
class Row:
    """What the table says of one script, with the lines below it."""

    cells: list[str]
    good: bool
    notes: list[str]


@dataclass(frozen=True)
class Comparison:
    """Scaled deviations (no unit): the port's largest, the CPU program's own, and their ratio."""

    delta: float
    spread: float
    ratio: float


def main() -> int:
    options = arguments()
    known = scripts.listed(options.drivers)
    unknown = set(options.only) - {script.name for script in known}
    if unknown:
        raise SystemExit(f"run.sh defines no {', '.join(sorted(unknown))}")
    chosen = [script for script in known if not options.only or script.name in options.only]
    folder = scripts.prepare(options.drivers, options.work)
    waiting = [script for script in chosen if not (options.kept and stored(script, options).exists())]
    migrations = migrate_all(waiting, options)
    rows = []
    for script in chosen:
        if script in waiting:
            store(row_of(measure(script, folder, migrations, options)), stored(script, options))
        rows.append(Row(**json.loads(stored(script, options).read_text(encoding="utf-8"))))
        print(" | ".join(rows[-1].cells), flush=True)
    body = section(rows, options)
    (options.work / f"{mode(options)}.md").write_text(body, encoding="utf-8")
    if options.update_results:
        results_doc.replace_section(mode(options), body)
    return 0 if all(row.good for row in rows) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=resolved, required=True, help="folder of checkouts named OWNER_REPO")
    parser.add_argument("--drivers", type=resolved, required=True, help="folder that holds run.sh and xdrive.py")
    parser.add_argument("--work", type=resolved, required=True, help="scratch folder: data, ports, logs, kept CPU runs")
    parser.add_argument("--python", type=absolute, required=True, help="Python with torch, torch_xla and the scripts' packages")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--draws", type=int, default=4, help="CPU runs with perturbed weights (default 4)")
    parser.add_argument("--limit", type=int, default=300, help="seconds a run may take (default 300)")
    parser.add_argument("--kept", action="store_true", help="take rows an earlier run stored in SCRATCH")
    parser.add_argument("--fresh", action="store_true", help="repeat CPU runs that are kept in --work")
    parser.add_argument("--unsafe-fixes", action="store_true")
    parser.add_argument("--update-results", action="store_true", help="write the table to docs/results.md")
    return parser.parse_args()


def resolved(path: str) -> Path:
    return Path(path).resolve()


def absolute(path: str) -> Path:
    """Links kept: the python of a virtual environment is one."""
    return Path(path).absolute()


def mode(options: argparse.Namespace) -> str:
    return "real-scripts-unsafe" if options.unsafe_fixes else "real-scripts"


# -- migrating and running


def migrate_all(chosen: Iterable[Script], options: argparse.Namespace) -> dict[str, Migration]:
    names = dict.fromkeys(name for script in chosen for name in script.checkouts)
    ports = options.work / mode(options)
    shutil.rmtree(ports, ignore_errors=True)
    ports.mkdir(parents=True)
    return {name: migrate(options.corpus / name, ports, options.unsafe_fixes) for name in names}


def migrate(source: Path, ports: Path, unsafe: bool) -> Migration:
    target, report = ports / source.name, ports / f"{source.name}.report.md"
    flags = ["--unsafe-fixes"] if unsafe else []
    done = child.xlaport("migrate", source, "--out", target, "--report", report, *flags)
    problem = "" if target.is_dir() else f"exit {done.code}: {scripts.last_line(done.err)}"
    return Migration(target, scripts.text(report), problem)


def measure(script: Script, drivers: Path, migrations: dict[str, Migration], options: argparse.Namespace) -> Result:
    settings = [Setting(), Setting(threads=1), *(Setting(perturb=seed) for seed in range(1, options.draws + 1))]
    cpu = tuple(kept_run(script, drivers, setting, options) for setting in settings)
    own = tuple(migrations[name] for name in script.checkouts)
    if any(migration.problem for migration in own):
        return Result(script, cpu, Run("not migrated"), own)
    port = Setting(xla=True, limit=options.limit)
    work = options.work / f"{mode(options)}-run"
    return Result(script, cpu, scripts.run(script.name, options.work / mode(options), drivers, work, options.python, port), own)


def kept_run(script: Script, drivers: Path, setting: Setting, options: argparse.Namespace) -> Run:
    """The run of the original; one that ended well is stored under its setting and not repeated."""
    store = options.work / "cpu" / f"{script.name}.t{setting.threads}.p{setting.perturb}.json"
    if store.exists() and not options.fresh:
        return scripts.load(store)
    setting = Setting(threads=setting.threads, perturb=setting.perturb, limit=options.limit)
    run = scripts.run(script.name, options.corpus, drivers, options.work / "cpu-run", options.python, setting)
    if run.losses:
        scripts.save(run, store)
    return run


# -- judging


def compare(result: Result) -> Comparison:
    base = result.cpu[0].losses
    spread = max((losses.largest(base, draw.losses) for draw in result.cpu[1:] if draw.losses), default=math.inf)
    delta = losses.largest(base, result.xla.losses, resolution=losses.ROUNDING)
    spread = max(spread, losses.floor(base))
    return Comparison(delta, spread, delta / spread if delta else 0.0)


def ran(run: Run) -> bool:
    return run.status in {"stopped-at-N", "ended", "exit 0", "exit None"}


def verdict(result: Result) -> str:
    """The first thing wrong, worst first; else how the losses compare."""
    xla = result.xla
    problems = [migration.problem for migration in result.migrations if migration.problem]
    if problems:
        return f"not migrated: {problems[0]}"
    if not ran(result.cpu[0]):
        return f"original fails: {result.cpu[0].error}"
    if not ran(xla):
        return "refused by name in the report" if failure_named(result) else f"fails: {xla.error}"
    for wrong in (
        (not xla.port, "never imports torch_xla"),
        (set(xla.where_losses) != {"xla"} or set(xla.where_parameters) != {"xla"}, "not on XLA"),
        (xla.changed < (1 if has_no_losses(result) else result.cpu[0].changed), "parameters do not change"),
        (xla.steps < result.cpu[0].steps, "fewer steps"),
        (xla.executions < xla.steps, "fewer executions than steps"),
    ):
        if wrong[0]:
            return wrong[1]
    if has_no_losses(result):
        return "trains; the original's own losses are NaN"
    if xla.random_ops:
        drawn = ", ".join(f"{name.removeprefix('xla::')} {count}x" for name, count in sorted(xla.random_ops.items()))
        return f"random on device ({drawn})"
    return "within 3x" if compare(result).ratio <= ALLOWED else "outside 3x"


def has_no_losses(result: Result) -> bool:
    """The original trains on memory it never set: nothing to compare with, and what NaN touches counts as changed."""
    return all(math.isnan(loss) for loss in result.cpu[0].losses)


def failure_named(result: Result) -> bool:
    """Whether a line of the traceback inside the port is one its report names."""
    return any(named(result, file, line) for file, line in result.xla.frames)


def named(result: Result, file: str, line: int) -> bool:
    return any(
        re.search(rf"(?<![\w/.-]){re.escape(relative)}:{line}(?!\d)", migration.report)
        for migration in result.migrations
        if (relative := inside(migration, file))
    )


def inside(migration: Migration, file: str) -> str | None:
    path, folder = Path(file).resolve(), migration.folder.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def warm_step(run: Run) -> int:
    return int(len(run.compiles_at_step) * WARM_UP)


def late(run: Run) -> tuple[scripts.Compilation, ...]:
    """Compilations between the end of warm-up and the last step."""
    counts = run.compiles_at_step
    return run.compilations[counts[warm_step(run) - 1] : counts[-1]] if len(counts) > 1 else ()


def late_lines(result: Result) -> list[tuple[str, bool]]:
    """For each late compilation the innermost line of the port on its stack, and whether the report names any of them."""
    lines = []
    for compilation in late(result.xla):
        own = [(file, line) for file, line in compilation.frames if any(inside(m, file) for m in result.migrations)]
        place = f"{Path(own[0][0]).name}:{own[0][1]}" if own else "outside the port"
        lines.append((place, any(named(result, *frame) for frame in own)))
    return lines


# -- writing


def row_of(result: Result) -> Row:
    good = verdict(result).startswith(("within", "random", "trains", "refused"))
    return Row(cells(result), good, list(details(result)))


def stored(script: Script, options: argparse.Namespace) -> Path:
    return options.work / "rows" / mode(options) / f"{script.name}.json"


def store(row: Row, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(vars(row)), encoding="utf-8")


def cells(result: Result) -> list[str]:
    xla, cpu = result.xla, result.cpu[0]
    comparison = compare(result) if xla.losses and cpu.losses else None
    return [
        result.script.name,
        f"yes, {xla.seconds:.0f} s" if ran(xla) else f"{xla.status}",
        f"{'+'.join(xla.where_losses) or '-'} / {'+'.join(xla.where_parameters) or '-'}",
        f"{xla.changed}/{xla.parameters} ({cpu.changed}/{cpu.parameters})",
        f"{xla.steps} ({cpu.steps})",
        str(xla.executions),
        compact(xla.compiles_at_step),
        late_cell(result),
        number(comparison.delta) if comparison else "-",
        number(comparison.spread) if comparison else "-",
        f"{comparison.ratio:.2g}" if comparison else "-",
        verdict(result),
    ]


def number(value: float) -> str:
    return f"{value:.1e}"


def compact(counts: Sequence[int]) -> str:
    """Cumulative counts with repeats folded: 1 2 3x18."""
    runs = [(value, len(list(group))) for value, group in groupby(counts)]
    return " ".join(str(value) if times == 1 else f"{value}x{times}" for value, times in runs) or "-"


def late_cell(result: Result) -> str:
    if not result.xla.compiles_at_step:
        return "-"
    lines = late_lines(result)
    unnamed = sum(not is_named for _, is_named in lines)
    return f"{len(lines)}, of them {unnamed} at lines the report does not name" if lines else "0"


def section(rows: Sequence[Row], options: argparse.Namespace) -> str:
    flag = " --unsafe-fixes" if options.unsafe_fixes else ""
    good = sum(row.good for row in rows)
    draws = f"two threads as base; one thread; {options.draws} draws of initial weights perturbed relatively by 1e-7"
    return "\n".join(
        [
            f"## Real scripts after `xlaport migrate{flag}`",
            "",
            f"`python bench/real_scripts.py{flag} --update-results ...`; {good} of {len(rows)} train on XLA:CPU as on the CPU, draw random",
            "numbers on the device (their losses cannot be compared), or are refused at the line beforehand. No hand edits. Losses are unscaled; Δ is the",
            "largest |xla - cpu| / max(|cpu|, running mean of |cpu|) over the recorded losses (differences below their rounding,",
            f"1e-6, count as none); the CPU's spread is the same over its own runs ({draws}).",
            f"Steps and parameters in parentheses: the original. Warm-up is the first {WARM_UP:.0%} of the steps.",
            "",
            results_doc.table(COLUMNS, (row.cells for row in rows)),
            "",
            *(note for row in rows for note in row.notes),
            "",
        ]
    )


def details(result: Result) -> Iterator[str]:
    name = result.script.name
    places = late_lines(result)
    if places:
        told = ", ".join(dict.fromkeys(f"{place} ({'named' if known else 'not named'})" for place, known in places))
        yield f"- {name}: compiles after warm-up at {told}"
    fallen = {op: count for op, count in result.xla.fallbacks.items() if op != "aten::_local_scalar_dense"}
    if fallen:
        yield f"- {name}: on the host: {', '.join(f'{op} {count}x' for op, count in sorted(fallen.items()))}"


if __name__ == "__main__":
    sys.exit(main())
