"""Speed as ratios within one run, and peak memory.

    python bench/speed.py --sdist FOLDER_OR_TAR_GZ [--ruff PROGRAM --torchfix PROGRAM --fixit PROGRAM]
                          [--corpus CHECKOUTS] [--repeats N] [--update-results]

The sdist is that of transformers 4.57.1:
    pip download --no-binary :all: --no-deps transformers==4.57.1 -d SCRATCH
Analysis (files listed, read, analysed, the rules of a migration run; no rewriting) and `xlaport lint` (the steps of the
programs too) are compared with `ast.parse` alone over the text of the same files, and with other linters. Each
measurement has a process of its own; CPU seconds of it and its children, medians. Programs in Python find their
bytecode, as they do where they are installed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import child
import results_doc

REPEATS = 3
ALLOWED_RATIO = 2.5
"""CPU of analysis, or of a first `xlaport lint`, over CPU of `ast.parse`."""
ALLOWED_RUFF = 6
"""CPU of a first `xlaport lint` over that of `ruff check --no-cache`."""
WANTED_LEAD = 50
"""CPU of torchfix or Fixit over that of `xlaport lint`."""
ALLOWED_START = 0.12
"""CPU seconds of `xlaport lint` on one small file, without a cached answer."""
WANTED_RATE = 5.0
"""kLOC per CPU second of `migrate --diff`."""
ALLOWED_PEAK = 300
"""MB of resident memory."""

SAMPLE = 40
"""Files that speak of torch, evenly spread over the sdist, for linters that would need hours for all of it."""

ONE_FILE = "import torch\n\n\ndef train(model, loader, optimizer, device):\n" + (
    "    for x, y in loader:\n        loss = model(x.to(device)).mean()\n        loss.backward()\n        print(loss.item())\n        optimizer.step()\n"
)


@dataclass(frozen=True)
class Analysis:
    """Medians: CPU seconds of parsing and of analysis; the ratio is the median of the runs' ratios, `peak` in MB."""

    files: int
    lines: int
    findings: int
    parse: float
    analysis: float
    ratio: float
    peak: float


@dataclass(frozen=True)
class Lint:
    """`xlaport lint` of the sdist, CPU seconds: without and with a cached answer, and `ruff check --no-cache` (None without it)."""

    parse: float
    first: float
    second: float
    ruff: float | None


@dataclass(frozen=True)
class Sample:
    """The same files for each linter, CPU seconds; None for a program that was not given."""

    files: int
    lint: float
    torchfix: float | None
    fixit: float | None


@dataclass(frozen=True)
class Diff:
    """`migrate --diff` of one checkout: lines of its `.py` files, CPU seconds, peak MB."""

    name: str
    lines: int
    cpu: float
    peak: float

    @property
    def rate(self) -> float:
        return self.lines / 1000 / self.cpu


def main() -> int:
    options = arguments()
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options.sdist)))
        return 0
    good = True
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        if options.sdist:
            with unpacked(options.sdist) as folder:
                good &= linting(folder, options)
        if options.corpus:
            good &= migrating(options.corpus, options)
    return 0 if good else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdist", type=Path, help="the source distribution, packed or unpacked")
    parser.add_argument("--corpus", type=Path, help="folder of checkouts for `migrate --diff`")
    parser.add_argument("--ruff", help="the program to compare `lint` with")
    parser.add_argument("--torchfix", help="likewise, on a sample")
    parser.add_argument("--fixit", help="likewise, on a sample")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each measurement (default: %(default)s)")
    parser.add_argument("--update-results", action="store_true", help="write the tables to docs/results.md")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def unpacked(sdist: Path) -> Iterator[Path]:
    """The folder of an sdist: itself, or a temporary one that a tar.gz is unpacked to."""
    if sdist.is_dir():
        yield sdist
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder)


def linting(folder: Path, options: argparse.Namespace) -> bool:
    start = measure_start(options.repeats)
    print(f"one file: {start:.3f} s", flush=True)
    sample = measure_sample(folder, options)
    print(sample, flush=True)
    analysis = measure_analysis(folder, options.repeats)
    print(analysis, flush=True)
    lint = measure_lint(folder, options)
    print(lint, flush=True)
    body = lint_section(analysis, lint, sample, start, options.repeats)
    print(body)
    if options.update_results:
        results_doc.replace_section("speed", body)
    return (
        max(analysis.ratio, lint.first / lint.parse) <= ALLOWED_RATIO
        and analysis.peak <= ALLOWED_PEAK
        and start <= ALLOWED_START
        and (lint.ruff is None or lint.first <= ALLOWED_RUFF * lint.ruff and lint.second < lint.ruff)
        and all(other is None or other >= WANTED_LEAD * sample.lint for other in (sample.torchfix, sample.fixit))
    )


def migrating(corpus: Path, options: argparse.Namespace) -> bool:
    diffs = [measure_diff(path) for path in sorted(corpus.iterdir()) if path.is_dir()]
    body = diff_section(diffs)
    print(body)
    if options.update_results:
        results_doc.replace_section("speed-migrate", body)
    return total(diffs).rate >= WANTED_RATE and total(diffs).peak <= ALLOWED_PEAK


# -- analysis against ast.parse


def measure_analysis(folder: Path, repeats: int) -> Analysis:
    with tempfile.TemporaryDirectory() as empty:
        measured("analysis", Path(empty))  # bytecode
    pairs = [(measured("parse", folder), measured("analysis", folder)) for _ in range(repeats)]
    parses, analyses = zip(*pairs)
    assert parses[0]["files"] == analyses[0]["files"], "both sides must see the same files"
    return Analysis(
        files=parses[0]["files"],
        lines=parses[0]["lines"],
        findings=analyses[0]["findings"],
        parse=statistics.median(item["cpu"] for item in parses),
        analysis=statistics.median(item["cpu"] for item in analyses),
        ratio=statistics.median(analysis["cpu"] / parse["cpu"] for parse, analysis in pairs),
        peak=max(item["peak"] for item in analyses),
    )


def measured(what: str, folder: Path) -> dict[str, float]:
    done = child.run([sys.executable, str(Path(__file__).resolve()), "--sdist", str(folder), "--measure", what])
    if done.code:
        raise SystemExit(f"{what} fails: {done.err[-2000:]}")
    return {**json.loads(done.out), "peak": done.peak}


def cpu_of_parse(folder: Path) -> dict[str, float]:
    from xlaport import files

    texts = [path.read_bytes() for path in files.find([folder]).files if path.suffix == ".py"]
    warnings.simplefilter("ignore")
    started = time.process_time()
    for text in texts:
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            pass
    return {
        "cpu": time.process_time() - started,
        "files": len(texts),
        "lines": sum(text.count(b"\n") for text in texts),
    }


def cpu_of_analysis(folder: Path) -> dict[str, float]:
    from xlaport import config, engine, files
    from xlaport.analysis.project import Project
    from xlaport.source import SourceFile

    started = time.process_time()
    tree = files.find([folder])
    paths = [path for path in tree.files if path.suffix == ".py"]
    sources = {path: SourceFile.from_bytes(path, path.relative_to(tree.root).as_posix(), path.read_bytes()) for path in paths}
    project, settings = Project(tree.root, sources), config.load(tree.root)
    findings = sum(map(len, engine.findings(project, paths, settings).values()))
    return {"cpu": time.process_time() - started, "files": len(paths), "findings": findings}


MEASURES = {"parse": cpu_of_parse, "analysis": cpu_of_analysis}


# -- lint against other linters


def measure_start(repeats: int) -> float:
    """CPU seconds of `xlaport lint` on one file that no answer is kept for."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.py")
        file.write_text(ONE_FILE, encoding="utf-8")
        lint_once(file)  # bytecode
        return median(repeats * 3, lambda: lint_once(file))


def lint_once(path: Path) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return linted(path, cache)


def linted(path: Path, cache: str) -> float:
    return cpu(child.xlaport("lint", path, "--exit-zero", XDG_CACHE_HOME=cache))


def measure_lint(folder: Path, options: argparse.Namespace) -> Lint:
    parses, firsts, seconds, ruffs = [], [], [], []
    for _ in range(options.repeats):
        parses.append(measured("parse", folder)["cpu"])
        if options.ruff:
            ruffs.append(cpu(child.run([options.ruff, "check", "--no-cache", "--exit-zero", "--quiet", str(folder)])))
        with tempfile.TemporaryDirectory() as cache:
            firsts.append(linted(folder, cache))
            seconds.append(linted(folder, cache))
    ruff = statistics.median(ruffs) if ruffs else None
    return Lint(statistics.median(parses), statistics.median(firsts), statistics.median(seconds), ruff)


def measure_sample(folder: Path, options: argparse.Namespace) -> Sample:
    speaking = [path for path in sorted(folder.rglob("*.py")) if b"torch" in path.read_bytes()]
    chosen = speaking[:: max(1, len(speaking) // SAMPLE)][:SAMPLE]
    with tempfile.TemporaryDirectory() as sample:
        for number, path in enumerate(chosen):
            shutil.copy(path, Path(sample, f"file{number}.py"))
        copies = sorted(map(str, Path(sample).iterdir()))

        def other(program: str | None, *words: str) -> float | None:
            if program is None:
                return None
            return median(options.repeats, lambda: cpu(child.run([program, *words, *copies]), good=(0, 1, 2, 3)))

        lint = median(options.repeats, lambda: lint_once(Path(sample)))
        return Sample(len(copies), lint, other(options.torchfix), other(options.fixit, "lint"))


def cpu(done: child.Child, good: Sequence[int] = (0,)) -> float:
    if done.code not in good or "Traceback" in done.err:
        raise SystemExit(f"a linter exits with {done.code}: {done.err[-2000:]}")
    return done.cpu


def median(repeats: int, measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(repeats))


# -- migrate --diff


def measure_diff(checkout: Path) -> Diff:
    done = child.xlaport("migrate", checkout, "--diff")
    if done.code not in (0, 1, 2):
        raise SystemExit(f"{checkout.name}: migrate --diff exits {done.code}: {done.err[-2000:]}")
    files = [path for path in checkout.rglob("*.py") if path.is_file() and not path.is_symlink()]
    diff = Diff(checkout.name, sum(path.read_bytes().count(b"\n") for path in files), done.cpu, done.peak)
    print(diff, flush=True)
    return diff


def total(diffs: Sequence[Diff]) -> Diff:
    return Diff("all", sum(d.lines for d in diffs), sum(d.cpu for d in diffs), max(d.peak for d in diffs))


# -- writing


def lint_section(analysis: Analysis, lint: Lint, sample: Sample, start: float, repeats: int) -> str:
    rows = [
        ("analysis / ast.parse, CPU", f"{analysis.ratio:.2f}", f"at most {ALLOWED_RATIO}"),
        ("analysis, CPU s", f"{analysis.analysis:.1f}", ""),
        ("ast.parse, CPU s", f"{analysis.parse:.1f}", ""),
        ("size", f"{analysis.lines / 1000:.0f} kLOC in {analysis.files} files, {analysis.findings} findings", ""),
        ("analysis, peak MB", f"{analysis.peak:.0f}", f"at most {ALLOWED_PEAK}"),
        ("first `lint` / ast.parse, CPU", f"{lint.first / lint.parse:.2f}", f"at most {ALLOWED_RATIO}"),
        ("first `lint`, CPU s", f"{lint.first:.1f}", ""),
        ("second `lint`, CPU s", f"{lint.second:.2f}", "less than ruff" if lint.ruff else ""),
    ]
    if lint.ruff:
        rows += [
            ("`ruff check --no-cache`, CPU s", f"{lint.ruff:.2f}", ""),
            ("first `lint` / ruff, CPU", f"{lint.first / lint.ruff:.1f}", f"at most {ALLOWED_RUFF}"),
        ]
    rows += [
        ("`lint` of one file, CPU s", f"{start:.3f}", f"at most {ALLOWED_START}"),
        (f"`lint` of {sample.files} files, CPU s", f"{sample.lint:.2f}", ""),
    ]
    for name, other in (("torchfix", sample.torchfix), ("Fixit", sample.fixit)):
        if other is not None:
            rows.append((f"{name} / `lint`, the same files, CPU", f"{other / sample.lint:.0f} ({other:.1f} s)", f"at least {WANTED_LEAD}"))
    runs = "medians of three" if repeats == REPEATS else f"{repeats} run{'s' if repeats > 1 else ''} of each"
    head = f"## Speed\n\n`python bench/speed.py --sdist ... --update-results`; transformers 4.57.1 (sdist), {runs}, CPU of all processes.\n"
    return f"{head}\n{results_doc.table(('what', 'measured', 'wanted'), rows)}\n"


def diff_section(diffs: Sequence[Diff]) -> str:
    everything, slowest = total(diffs), min((d for d in diffs if d.lines), key=lambda d: d.rate)
    largest = max(diffs, key=lambda d: d.peak)
    rows = [
        ("migrate --diff, kLOC per CPU s", f"{everything.rate:.1f}", f"at least {WANTED_RATE:.0f}"),
        ("checkouts", f"{len(diffs)}, {everything.lines / 1000:.0f} kLOC", ""),
        ("slowest checkout", f"{slowest.name}: {slowest.rate:.1f} ({slowest.lines / 1000:.1f} kLOC)", ""),
        ("migrate --diff, peak MB", f"{largest.peak:.0f} ({largest.name})", f"at most {ALLOWED_PEAK}"),
    ]
    head = "## Speed of a migration\n\n`python bench/speed.py --corpus ... --update-results`.\n"
    return f"{head}\n{results_doc.table(('what', 'measured', 'wanted'), rows)}\n"


if __name__ == "__main__":
    sys.exit(main())
