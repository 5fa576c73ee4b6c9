"""Reports of made-up migrations of many files: time and size of each form, and how long a browser takes with the page.

    python bench/report_page.py [--tries N] [--update-results]

The browser is the Chromium or Chrome of this machine, headless.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

import browser  # noqa: E402
import results_doc  # noqa: E402
from reports_made import large  # noqa: E402

from xlaport.reports import migrate  # noqa: E402

SIZES = (200, 2000)
HUNKS = 4
ALLOWED = 2.0
"""Seconds of the page's thread until a report on the most files is filtered and shows one of them."""

FILTERED = "(() => { const rule = document.querySelector('[name=rule]'); rule.value = 'XP602'; rule.dispatchEvent(new Event('input', {bubbles: true})); })()"
UNFOLDED = "document.querySelector('.file:not([hidden]) summary').click()"
EVERYTHING = "document.querySelector('[type=reset]').click(); document.getElementById('fold').click()"


@dataclass(frozen=True)
class Load:
    """Seconds of the page's own thread until it is open, filtered by a rule, shows a file, and shows all of them; `wall` on the clock until it is open."""

    opened: float
    filtered: float
    unfolded: float
    all: float
    wall: float


def main() -> int:
    parser = argparse.ArgumentParser(description="time and size of reports")
    parser.add_argument("--tries", type=int, default=3, help="how often each page is opened; medians are told")
    parser.add_argument("--update-results", action="store_true")
    options = parser.parse_args()
    made, loaded = {}, {}
    with tempfile.TemporaryDirectory(prefix="xlaport-report-") as folder:
        for size in SIZES:
            file = Path(folder) / f"{size}.html"
            made[size] = generated(size, file)
            loaded[size] = median([load(file) for _ in range(options.tries)])
    body = report(made, loaded, options.tries)
    print(body)
    if options.update_results:
        results_doc.replace_section("report-page", body)
    return int(usable(loaded[SIZES[-1]]) > ALLOWED)


def generated(size: int, page: Path) -> dict[str, tuple[float, int]]:
    """Form -> (CPU seconds, bytes)."""
    found, report = {}, large(size, HUNKS)
    for form in ("json", "html", "markdown", "sarif"):
        started = time.process_time()
        text = migrate.printed(report, form)
        found[form] = (time.process_time() - started, len(text.encode()))
        if form == "html":
            page.write_text(text, encoding="utf-8")
    return found


def load(file: Path) -> Load:
    with browser.started() as pipe:
        page = browser.Page(pipe)
        page.window(1280)
        wall, taken = page.open(file), [page.cpu()]
        for step in (FILTERED, UNFOLDED, EVERYTHING):
            page.run(step)
            page.drawn()
            taken.append(page.cpu())
        assert not page.complaints()
        return Load(taken[0], *(after - before for before, after in zip(taken, taken[1:])), wall)


def median(found: list[Load]) -> Load:
    return Load(*(statistics.median(getattr(one, name) for one in found) for name in vars(found[0])))


def usable(found: Load) -> float:
    return found.opened + found.filtered + found.unfolded


def report(made: dict, loaded: dict[int, Load], tries: int) -> str:
    rows = [(f"{size:,}", f"{size * HUNKS:,}", *(f"{seconds:.2f} s, {shown(length)}" for seconds, length in made[size].values())) for size in SIZES]
    pages = [(f"{size:,}", *(f"{value:.2f}" for value in (one.opened, one.filtered, one.unfolded, usable(one), one.all, one.wall))) for size, one in loaded.items()]
    return "\n".join([
        "## Reports of many files", "", f"`python bench/report_page.py --update-results`: made-up migrations, {HUNKS} edits a file. CPU seconds and size of each form; Markdown",
        "is the whole of it, of which a comment on GitHub (`.comment.md`) shows what it has room for.", "",
        results_doc.table(("files", "edits", "JSON", "HTML", "Markdown", "SARIF"), rows), "",
        f"The page in headless Chromium, medians of {tries}: CPU seconds of the page's own thread (usable: open, filtered by a rule, one file unfolded; at most",
        f"{ALLOWED:.0f}), and seconds on the clock until it is open, on two processors that other work had a share of.", "",
        results_doc.table(("files", "opened", "filtered", "a file unfolded", "usable", "all files unfolded", "opened, on the clock"), pages),
    ])


def shown(length: int) -> str:
    return f"{length / 1e6:.1f} MB" if length >= 1e6 else f"{length / 1e3:.0f} kB"


if __name__ == "__main__":
    sys.exit(main())
