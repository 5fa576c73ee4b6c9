"""Migrate every checkout of a folder to TorchTPU, and look at the output with other eyes.

    python bench/torchtpu.py --corpus CHECKOUTS --work SCRATCH [--only OWNER_REPO...] [--kept] [--update-results]

As `census_sweep.py`, with `--target torchtpu`: the port parses where the source did, a second migration leaves it as it is, and what still says
CUDA or torch_xla in code is named by the report at its line.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import census_sweep
import child
import results_doc

WORDS = re.compile(census_sweep.WORDS.pattern + r"|\btorch_xla\b|\bxla_device\b", re.IGNORECASE)
TARGET = ("--target", "torchtpu")


@dataclass(frozen=True)
class Counts:
    """One checkout; all are numbers of things."""

    name: str
    files: int = 0
    changed: int = 0
    failed: int = 0
    found: int = 0
    converted: int = 0
    left: int = 0
    hits: int = 0
    unnamed: int = 0
    crashes: int = 0
    unparsable: int = 0
    unstable: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of checkouts")
    parser.add_argument("--work", type=Path, required=True, help="scratch folder: ports, reports, complaints")
    parser.add_argument("--only", nargs="+", default=[], metavar="OWNER_REPO")
    parser.add_argument("--kept", action="store_true", help="use what an earlier run stored in WORK for a checkout")
    parser.add_argument("--update-results", action="store_true", help="write the table to docs/results.md")
    options = parser.parse_args()
    chosen = sorted(path for path in options.corpus.iterdir() if path.is_dir() and (not options.only or path.name in options.only))
    rows, complaints = [], 0
    for checkout in [child.ROOT / "sample_models", *chosen]:
        counts, told = looked_at(checkout, options.work, options.kept)
        rows.append(counts)
        complaints += len(told)
        print(json.dumps(vars(counts)), *told, sep="\n  ", flush=True)
    if options.update_results:
        results_doc.replace_section("torchtpu", section(rows))
    return 1 if complaints else 0


def looked_at(checkout: Path, work: Path, kept: bool) -> tuple[Counts, list[str]]:
    """The counts of one checkout, and each thing that is not as it should be."""
    file = work / f"{checkout.name}.json"
    if kept and file.exists():
        read = json.loads(file.read_text(encoding="utf-8"))
        return Counts(**read["counts"]), read["complaints"]
    work.mkdir(parents=True, exist_ok=True)
    counts, complaints = migrated(checkout, work / checkout.name)
    file.write_text(json.dumps({"counts": vars(counts), "complaints": complaints}), encoding="utf-8")
    return counts, complaints


def migrated(checkout: Path, folder: Path) -> tuple[Counts, list[str]]:
    shutil.rmtree(folder, ignore_errors=True)
    port, again, report = folder / "port", folder / "again", folder / "report.md"
    folder.mkdir(parents=True)
    first = child.xlaport("migrate", checkout, *TARGET, "--out", port, "--report", report)
    second = child.xlaport("migrate", port, *TARGET, "--out", again)
    look = census_sweep.looked_at(checkout, port, again, report, {"migrate": first, "second migrate": second}, WORDS)
    numbers = {name: count for name, count in census_sweep.summary(first.out).items() if name in {"changed", "failed", "found", "converted", "left"}}
    return Counts(checkout.name, **look.counts, **numbers), look.complaints + look.crashes


def section(rows: list[Counts]) -> str:
    columns = [field.name for field in fields(Counts)]
    total = Counter({name: sum(getattr(row, name) for row in rows) for name in columns[1:]})
    last = [f"**{len(rows)} folders**", *(str(total[name]) for name in columns[1:])]
    return "\n".join(
        [
            "## Ports to TorchTPU",
            "",
            "`python bench/torchtpu.py --update-results ...`: `xlaport migrate --target torchtpu` over the sample models and public checkouts, among",
            "them those of the real scripts above. hits: words of CUDA or torch_xla in names and strings of the output; unnamed: hits whose line the",
            "report does not name. unparsable: parsed before, not after. unstable: files a second migration changes. Nothing was run on a TPU.",
            "",
            results_doc.table(columns, [*([str(value) for value in vars(row).values()] for row in rows), last]),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
