"""Migrate every notebook of a folder of checkouts, then look at the JSON with other eyes.

    python bench/notebooks.py --corpus CHECKOUTS --work SCRATCH [--update-results]

The notebooks of a checkout are copied without its other files, migrated twice and linted. Nothing of xlaport is imported: its command
line is run. A notebook is canonical when writing what `json` reads of it gives its bytes, in some style; the port must be in the same one.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import child
import results_doc

STYLES = [
    {"indent": indent, "ensure_ascii": ascii, "separators": separators, "end": end}
    for indent, ascii, separators, end in product((1, 2, 4, None, "\t"), (False, True), ((",", ": "), (", ", ": "), (",", ":")), ("\n", ""))
]
SUMMARY = re.compile(r"^files: ", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of checkouts")
    parser.add_argument("--work", type=Path, required=True, help="scratch folder")
    parser.add_argument("--update-results", action="store_true", help="write the table to docs/results.md")
    options = parser.parse_args()
    totals, complaints = Counter[str](), []
    for checkout in sorted(path for path in options.corpus.iterdir() if path.is_dir()):
        copy = copied(checkout, options.work / "before" / checkout.name)
        if not names(copy):
            continue
        found, complained = look(copy, options.work)
        totals.update(found)
        complaints += [f"{checkout.name}/{line}" for line in complained]
        print(checkout.name, dict(found), flush=True)
    (options.work / "complaints.txt").write_text("".join(f"{line}\n" for line in complaints), encoding="utf-8")
    if options.update_results:
        results_doc.replace_section("notebooks", section(totals))
    print("\n".join(complaints))
    return int(bool(complaints))


def copied(checkout: Path, copy: Path) -> Path:
    """The notebooks of a checkout."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in names(checkout):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkout / name, copy / name)
    return copy


def names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*.ipynb") if path.is_file() and not path.is_symlink() and ".ipynb_checkpoints" not in path.parts)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def look(before: Path, work: Path) -> tuple[Counter[str], list[str]]:
    """Counts of one checkout, and what is wrong with it."""
    port, again = work / "port" / before.name, work / "again" / before.name
    for folder in (port, again):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
    notebooks = names(before)
    runs = [child.xlaport("migrate", before, "--out", port), child.xlaport("migrate", port, "--out", again)]
    lint = child.xlaport("lint", before, "--no-cache", "--select", "XP", "--output-format", "json")
    crashed = [run for run in runs if not SUMMARY.search(run.out) or "Traceback" in run.err] + [run for run in [lint] if not run.out.startswith("{")]
    complaints = [f"a run exits {run.code}: {run.err.strip()[-200:]}" for run in crashed]
    counts = Counter(notebooks=len(notebooks), crashes=len(crashed))
    if crashed:
        return counts, complaints
    findings = [item for item in json.loads(lint.out)["findings"] if item["file"].endswith(".ipynb")]
    counts.update(findings=len(findings), unparsable=sum(item["code"] == "XP001" for item in findings))
    for name in notebooks:
        raw, new = ((folder / name).read_bytes() for folder in (before, port))
        counts.update(cells=sum(cell.get("cell_type") == "code" for cell in cells(raw)), changed=raw != new)
        counts.update(edited=sum(old != now for old, now in zip(cells(raw), cells(new))))
        wrong = [*differences(raw, new), *(["changes in a second migrate"] if (again / name).read_bytes() != new else [])]
        counts.update(canonical=style_of(raw) is not None, wrong=bool(wrong))
        complaints += [f"{name}: {what}" for what in wrong]
    return counts, complaints


def cells(raw: bytes) -> list[dict]:
    try:
        return json.loads(raw).get("cells", [])
    except ValueError:
        return []


def differences(raw: bytes, new: bytes) -> Iterator[str]:
    """What differs other than sources of code cells, and cells that parse no more."""
    if raw == new:
        return
    before, after = json.loads(raw), json.loads(new)
    style = style_of(raw)
    if style and written(after, style) != new:
        yield "written in another style"
    for old, now in zip(before["cells"], after["cells"]):
        if old["cell_type"] == "code" and old["source"] != now["source"]:
            if type(old["source"]) is not type(now["source"]):
                yield "a source has another form"
            if is_python(old["source"]) and not is_python(now["source"]):
                yield "a cell parses no more"
            now["source"] = old["source"]
    if before != after:
        yield "more than sources changed"


def is_python(source: list[str] | str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse("".join(source))
        except (SyntaxError, ValueError):
            return False
    return True


@lru_cache(maxsize=4)
def style_of(raw: bytes) -> dict | None:
    """The style `json` writes the same bytes in; of those with this end, indentation and ASCII or not."""
    content, indent = json.loads(raw), re.match(rb"\{\n([ \t]*)", raw)
    wanted = {None} if indent is None else {"\t" if indent[1] == b"\t" else len(indent[1])}
    end = "\n" if raw.endswith(b"\n") else ""
    likely = (style for style in STYLES if style["end"] == end and style["indent"] in wanted and style["ensure_ascii"] == raw.isascii())
    return next((style for style in likely if written(content, style) == raw), None)


def written(content: dict, style: dict) -> bytes:
    options = {key: value for key, value in style.items() if key != "end"}
    return (json.dumps(content, **options) + style["end"]).encode("utf-8", "surrogatepass")


def section(totals: Counter[str]) -> str:
    rows = [
        ("notebooks", totals["notebooks"], ""),
        ("code cells", totals["cells"], ""),
        ("runs that crash (two of migrate, one of lint, a checkout)", totals["crashes"], "0"),
        ("code cells that do not parse, reported by number", totals["unparsable"], ""),
        ("notebooks changed", totals["changed"], ""),
        ("cells changed", totals["edited"], ""),
        ("findings of lint in cells", totals["findings"], ""),
        ("notebooks that `json` writes in the same bytes, in one of 60 styles", totals["canonical"], ""),
        ("notebooks changed beyond sources, in another style, with a cell that parses no more, or by a second run", totals["wrong"], "0"),
    ]
    return "\n".join(
        [
            "## Notebooks",
            "",
            "`python bench/notebooks.py --update-results ...`: the notebooks of the census checkouts, without their other files, migrated twice",
            "and linted, and the JSON read by `json`.",
            "",
            results_doc.table(["figure", "value", "wanted"], rows),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
