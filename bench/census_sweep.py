"""Migrate every checkout of a folder, then look at the output with other eyes.

    python bench/census_sweep.py --corpus CHECKOUTS --work SCRATCH [--only OWNER_REPO...] [--update-results]

Nothing of xlaport is imported: its command line is run, and the output is read with `tokenize` and `ast`. For every
CUDA word that is left in code (names and strings; not comments, not strings that are statements, as docstrings are)
the report must name `path.py:LINE`, with the line of the output file.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import re
import shutil
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import child
import results_doc

WORDS = re.compile(
    "cuda|cudnn|nccl|apex|xformers|flash_attn|bitsandbytes|deepspeed|triton|pynvml|cupy|tensorrt|nvtx", re.IGNORECASE
)
LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
OUTCOMES = re.compile(r"^files: (\d+) changed, (\d+) clean, (\d+) skipped, (\d+) failed$", re.MULTILINE)
IDIOMS = re.compile(r"(\d+) CUDA idioms? found, (\d+) converted(?: \((\d+) unsafe\))?, (\d+) left")


@dataclass(frozen=True)
class Hit:
    """A CUDA word in code: file relative to the checkout, first line of its token, its own line, the token's text."""

    path: str
    start: int
    line: int
    token: str


@dataclass(frozen=True)
class Counts:
    """One checkout. `cpu` seconds and `peak` MB are those of the first migration; the rest are numbers of things."""

    name: str
    lines: int = 0
    files: int = 0
    changed: int = 0
    clean: int = 0
    skipped: int = 0
    failed: int = 0
    found: int = 0
    converted: int = 0
    left: int = 0
    hits: int = 0
    unnamed: int = 0
    crashes: int = 0
    unparsable: int = 0
    unstable: int = 0
    no_op: int = 0
    cpu: float = 0.0
    peak: float = 0.0


@dataclass(frozen=True)
class Sweep:
    """The counts of one checkout with the places behind them, as `path:line what` lines."""

    counts: Counts
    complaints: tuple[str, ...]


def main() -> int:
    options = arguments()
    checkouts = sorted(path for path in options.corpus.iterdir() if path.is_dir())
    chosen = [path for path in checkouts if not options.only or path.name in options.only]
    sweeps = []
    for checkout in chosen:
        sweeps.append(kept(checkout, options) or stored(sweep(checkout, options.work), options.work))
        print(json.dumps(vars(sweeps[-1].counts)), flush=True)
    complaints = [f"{s.counts.name}/{line}" for s in sweeps for line in s.complaints]
    (options.work / "complaints.txt").write_text("\n".join(complaints) + "\n", encoding="utf-8")
    body = section([s.counts for s in sweeps])
    (options.work / "census.md").write_text(body, encoding="utf-8")
    if options.update_results:
        results_doc.replace_section("census", body)
    print(f"{len(complaints)} complaints in {options.work / 'complaints.txt'}")
    return 1 if complaints else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of checkouts")
    parser.add_argument("--work", type=Path, required=True, help="scratch folder: ports, reports, complaints.txt")
    parser.add_argument("--kept", action="store_true", help="use what an earlier run stored in WORK for a checkout")
    parser.add_argument("--only", nargs="+", default=[], metavar="OWNER_REPO")
    parser.add_argument("--update-results", action="store_true", help="write the table to docs/results.md")
    return parser.parse_args()


def kept(checkout: Path, options: argparse.Namespace) -> Sweep | None:
    file = options.work / "counts" / f"{checkout.name}.json"
    if not options.kept or not file.exists():
        return None
    read = json.loads(file.read_text(encoding="utf-8"))
    return Sweep(Counts(**read["counts"]), tuple(read["complaints"]))


def stored(done: Sweep, work: Path) -> Sweep:
    file = work / "counts" / f"{done.counts.name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"counts": vars(done.counts), "complaints": list(done.complaints)}), encoding="utf-8")
    return done


def sweep(checkout: Path, work: Path) -> Sweep:
    port, again, report = (work / kind / checkout.name for kind in ("port", "again", "report"))
    for folder in (port, again):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    report = report.with_name(f"{report.name}.md")
    report.unlink(missing_ok=True)
    first = child.xlaport("migrate", checkout, "--out", port, "--report", report)
    second = child.xlaport("migrate", port, "--out", again, "--report", report.with_suffix(".again.md"))
    look = looked_at(checkout, port, again, report, {"migrate": first, "second migrate": second})
    files = python_files(checkout)
    no_ops = [f"{place}: an edit that changes nothing" for file in files for place in no_op_edits(file, checkout / file, port / file)]
    counts = Counts(
        name=checkout.name,
        lines=sum(content(checkout / file).count(b"\n") for file in files),
        no_op=len(no_ops),
        cpu=round(first.cpu, 2),
        peak=round(first.peak),
        **look.counts,
        **summary(first.out),
    )
    complaints = (*look.complaints, *no_ops, *look.crashes)
    return Sweep(counts, complaints)


@dataclass(frozen=True)
class Look:
    """What the output itself says. `counts` are named as the fields of `Counts` are."""

    counts: dict[str, int]
    complaints: list[str]
    crashes: list[str]


def looked_at(checkout: Path, port: Path, again: Path, report: Path, runs: dict[str, child.Child], words: re.Pattern[str] = WORDS) -> Look:
    """Reads a port, a port of that and the report; `runs` by what a crash of one is called."""
    told = content(report).decode("utf-8")
    named = lines_named(told)
    files = python_files(checkout)
    hits = [hit for file in python_files(port) for hit in words_in_code(file, port, words)]
    unnamed = [f"{hit.path}:{hit.line} not named: {hit.token}" for hit in hits if not {hit.start, hit.line} & named.get(hit.path, set())]
    unparsable = [f"{file}: does not parse any more" for file in files if parsed(checkout / file) and not parsed(port / file)]
    unstable = [f"{file}: changes in a second migrate" for file in names(port) if content(port / file) != content(again / file)]
    crashes = [*(line for what, done in runs.items() for line in crash(what, done)), *failed_rules(told)]
    counts = {
        "files": len(files), "hits": len(hits), "unnamed": len(unnamed), "crashes": len(crashes), "unparsable": len(unparsable), "unstable": len(unstable),
    }
    return Look(counts, unnamed + unparsable + unstable, crashes)


def summary(out: str) -> dict[str, int]:
    """The tool's own numbers, from the summary it prints."""
    files, idioms = OUTCOMES.search(out), IDIOMS.search(out)
    result = dict(zip(("changed", "clean", "skipped", "failed"), map(int, files.groups()))) if files else {}
    if idioms:
        result |= {"found": int(idioms[1]), "converted": int(idioms[2]), "left": int(idioms[4])}
    return result


def crash(what: str, done: child.Child) -> list[str]:
    """A run that ended without its summary. Exit 2 alone only says that some file could not be done."""
    if OUTCOMES.search(done.out) and "Traceback" not in done.err:
        return []
    last = done.err.strip().splitlines()[-1:] or ["no message"]
    return [f"{what} exits {done.code}: {last[0][:300]}"]


def failed_rules(report: str) -> list[str]:
    return [line.strip()[:300] for line in report.splitlines() if "this is a bug in xlaport" in line]


# -- reading files


def python_files(folder: Path) -> list[str]:
    return [name for name in names(folder) if name.endswith(".py")]


def names(folder: Path) -> list[str]:
    """Regular files below `folder`, relative; links are not followed."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def content(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def parsed(file: Path) -> ast.Module | None:
    return parsed_text(content(file)) if file.is_file() else None


def parsed_text(source: str | bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError):
            return None


# -- words left in code


def words_in_code(name: str, folder: Path, words: re.Pattern[str] = WORDS) -> Iterator[Hit]:
    raw = content(folder / name)
    if not words.search(raw.decode("latin-1")):
        return
    for token in code_tokens(raw):
        for match in words.finditer(token.string):
            line = token.start[0] + token.string.count("\n", 0, match.start())
            yield Hit(name, token.start[0], line, token.string.splitlines()[line - token.start[0]].strip()[:80])


def code_tokens(raw: bytes) -> list[tokenize.TokenInfo]:
    """Name and string tokens, up to where the file stops being Python; logical lines made of strings only are left out."""
    result: list[tokenize.TokenInfo] = []
    statement: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(raw).readline):
            if token.type == tokenize.NEWLINE:
                result += code_of(statement)
                statement = []
            elif token.type not in LAYOUT:
                statement.append(token)
    except (tokenize.TokenError, SyntaxError):
        result += code_of(statement)
    return result


def code_of(statement: Sequence[tokenize.TokenInfo]) -> list[tokenize.TokenInfo]:
    if all(token.type == tokenize.STRING for token in statement):
        return []
    return [token for token in statement if token.type == tokenize.NAME or token.type in STRINGS]


def lines_named(report: str) -> dict[str, set[int]]:
    """The lines a report names, by file: `path.py:12` or `path.py:12, 15`."""
    result: dict[str, set[int]] = {}
    for path, lines in re.findall(r"([^\s`|()\[\]\"'<>]+\.py):(\d+(?:, ?\d+)*)", report):
        result.setdefault(path, set()).update(int(line) for line in lines.split(","))
    return result


# -- edits that change nothing


def no_op_edits(name: str, before: Path, after: Path) -> Iterator[str]:
    """Hunks that, put alone into the original, leave its syntax tree as it was."""
    old, new = (content(file).decode("utf-8", "surrogateescape") for file in (before, after))
    tree = parsed_text(old) if old != new else None
    if tree is None:
        return
    reference = ast.dump(tree)
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        alone = parsed_text("".join([*old_lines[:a1], *new_lines[b1:b2], *old_lines[a2:]]))
        if alone is not None and ast.dump(alone) == reference:
            yield f"{name}:{b1 + 1}"


# -- writing


def section(rows: Sequence[Counts]) -> str:
    columns = [field.name for field in fields(Counts)]
    total = Counter[str]()
    for row in rows:
        total.update({key: value for key, value in vars(row).items() if key not in ("name", "peak")})
    last = [f"**{len(rows)} checkouts**", *(shown(total[key]) for key in columns[1:-1]), shown(max(r.peak for r in rows))]
    return "\n".join(
        [
            "## Census sweep",
            "",
            "`python bench/census_sweep.py --update-results ...`: plain `xlaport migrate`, then an independent look at the output.",
            "lines: all `.py` of the checkout. hits: CUDA words in names and strings of the output (tokenizer; comments and",
            "statement strings left out); unnamed: hits whose `path.py:LINE` the report does not name. unparsable: parsed before,",
            "not after. unstable: files a second `migrate` changes. no_op: edits that leave the syntax tree as it was.",
            "cpu: seconds, peak: MB, both of the first `migrate`.",
            "",
            results_doc.table(columns, [*([shown(value) for value in vars(row).values()] for row in rows), last]),
        ]
    )


def shown(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
