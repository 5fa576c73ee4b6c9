"""Speed as ratios within one run, and peak memory.

    python bench/speed.py --sdist FOLDER_OR_TAR_GZ [--corpus CHECKOUTS] [--update-results]

The sdist is that of transformers 4.57.1:
    pip download --no-binary :all: --no-deps transformers==4.57.1 -d SCRATCH
Analysis (files listed, read, analysed, all rules run; no rewriting) is compared with `ast.parse` alone over the text of
the same files. Each measurement has a process of its own; CPU seconds, medians of three.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import child
import results_doc

REPEATS = 3
ALLOWED_RATIO = 2.5
"""CPU of analysis over CPU of `ast.parse`."""
WANTED_RATE = 5.0
"""kLOC per CPU second of `migrate --diff`."""
ALLOWED_PEAK = 300
"""MB of resident memory."""


@dataclass(frozen=True)
class Lint:
    """Medians: CPU seconds of parsing and of analysis; the ratio is the median of the runs' ratios, `peak` in MB."""

    files: int
    lines: int
    findings: int
    parse: float
    analysis: float
    ratio: float
    peak: float


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
    with unpacked(options.sdist) as folder:
        lint = measure_lint(folder)
    print(lint, flush=True)
    diffs = [measure_diff(path) for path in sorted(options.corpus.iterdir()) if path.is_dir()] if options.corpus else []
    body = section(lint, diffs)
    print(body)
    if options.update_results:
        results_doc.replace_section("speed", body)
    return 0 if met(lint, diffs) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdist", type=Path, required=True, help="the source distribution, packed or unpacked")
    parser.add_argument("--corpus", type=Path, help="folder of checkouts for `migrate --diff`")
    parser.add_argument("--update-results", action="store_true", help="write the table to docs/results.md")
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


# -- analysis against ast.parse


def measure_lint(folder: Path) -> Lint:
    pairs = [(measured("parse", folder), measured("analysis", folder)) for _ in range(REPEATS)]
    parses, analyses = zip(*pairs)
    assert parses[0]["files"] == analyses[0]["files"], "both sides must see the same files"
    return Lint(
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


def met(lint: Lint, diffs: Sequence[Diff]) -> bool:
    peaks = [lint.peak, *(diff.peak for diff in diffs)]
    fast = not diffs or total(diffs).rate >= WANTED_RATE
    return lint.ratio <= ALLOWED_RATIO and fast and max(peaks) <= ALLOWED_PEAK


def section(lint: Lint, diffs: Sequence[Diff]) -> str:
    rows = [
        ("analysis / ast.parse, CPU", f"{lint.ratio:.2f}", f"at most {ALLOWED_RATIO}"),
        ("analysis, CPU s", f"{lint.analysis:.1f}", ""),
        ("ast.parse, CPU s", f"{lint.parse:.1f}", ""),
        ("size", f"{lint.lines / 1000:.0f} kLOC in {lint.files} files, {lint.findings} findings", ""),
        ("analysis, peak MB", f"{lint.peak:.0f}", f"at most {ALLOWED_PEAK}"),
    ]
    if diffs:
        everything, slowest = total(diffs), min((d for d in diffs if d.lines), key=lambda d: d.rate)
        largest = max(diffs, key=lambda d: d.peak)
        rows += [
            ("migrate --diff, kLOC per CPU s", f"{everything.rate:.1f}", f"at least {WANTED_RATE:.0f}"),
            ("checkouts", f"{len(diffs)}, {everything.lines / 1000:.0f} kLOC", ""),
            ("slowest checkout", f"{slowest.name}: {slowest.rate:.1f} ({slowest.lines / 1000:.1f} kLOC)", ""),
            ("migrate --diff, peak MB", f"{largest.peak:.0f} ({largest.name})", f"at most {ALLOWED_PEAK}"),
        ]
    head = "## Speed\n\n`python bench/speed.py --update-results ...`; transformers 4.57.1 (sdist), medians of three.\n"
    return f"{head}\n{results_doc.table(('what', 'measured', 'wanted'), rows)}\n"


if __name__ == "__main__":
    sys.exit(main())
