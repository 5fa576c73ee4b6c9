"""`xlaport lint`: what will be slow or wrong on a TPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from xlaport import baseline, collector, config, files
from xlaport.diagnostics import Diagnostic, LintReport, counted
from xlaport.commands.numbers import positive
from xlaport.errors import UserError, one_line
from xlaport.lint import cache, gather
from xlaport.lint.gather import Gathered
from xlaport.targets import PROFILES

FORMATS = ("text", "json", "sarif", "github", "markdown")
"""Modules of `xlaport.reports.lint`, imported when they are asked for."""

CONCRETE = ("json", "sarif")
"""Formats that carry edits."""

STDIN = Path("-")
DEFAULT_BASELINE = Path("xlaport-baseline.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, default=[Path(".")], metavar="PATH", help="files or folders (default: .); - reads one file from stdin")
    parser.add_argument("--fix", action="store_true", help="apply safe fixes in place")
    parser.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: also fixes that may change meaning")
    parser.add_argument("--diff", action="store_true", help="print what --fix would change, write nothing; exit 1 if it would")
    parser.add_argument("--select", metavar="CODES", help="only these rules (codes or prefixes, comma separated)")
    parser.add_argument("--ignore", metavar="CODES", help="not these rules")
    parser.add_argument("--target", choices=PROFILES, help="what runs the program on a TPU (default: torch_xla)")
    parser.add_argument("--statistics", action="store_true", help="print how often each rule found something")
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="report only what is not in FILE")
    parser.add_argument(
        "--write-baseline", type=Path, nargs="?", const=True, metavar="FILE", help="write what is found to FILE (default: that of --baseline, or xlaport-baseline.json)"
    )
    parser.add_argument("--stdin-filename", type=Path, default=Path("stdin.py"), metavar="NAME", help="the name of the file that - reads")
    parser.add_argument("--python-rules", type=Path, action="append", default=[], metavar="PATH", help="your own rules, with their Python code")
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep answers of other runs")
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes (default: one a CPU for large projects)")


def run(options: argparse.Namespace) -> int:
    asked = question(options)
    if options.fix or options.diff:
        return fix(asked)
    with collector.paused():  # modules too are read again and again while they come: 8 ms of a run on one file
        return report(asked, diagnostics(asked))


@dataclass(frozen=True)
class Question:
    """What is looked at, and how."""

    options: argparse.Namespace
    gathered: Gathered
    baseline: baseline.Baseline

    @property
    def from_stdin(self) -> bool:
        return self.options.paths == [STDIN]


def question(options: argparse.Namespace) -> Question:
    if STDIN in options.paths and len(options.paths) > 1:
        raise UserError("- is one file of its own: name no others")
    if STDIN in options.paths:
        gathered = gather.from_text(sys.stdin.buffer.read(), options.stdin_filename)
    else:
        gathered = gather.from_paths(options.paths)
    settings = gathered.settings
    for name in ("select", "ignore"):
        text = getattr(options, name) or ",".join(getattr(settings, name))
        settings = replace(settings, **{name: config.codes_of(text)})
    if options.target:
        settings = config.checked(replace(settings, target=options.target), "--target")
    known = baseline.read(options.baseline) if options.baseline and not options.write_baseline else baseline.Baseline()
    return Question(options, replace(gathered, settings=settings), known)


# -- what is found


def diagnostics(asked: Question) -> list[Diagnostic]:
    """From the cache, or by looking."""
    if asked.options.no_cache or asked.from_stdin:
        return look(asked)
    key = cache_key(asked)
    found = cache.read(key)
    if found is None:
        found = look(asked)
        cache.write(key, found)
    return found


def cache_key(asked: Question) -> str:
    gathered, options = asked.gathered, asked.options
    named = [(str(path), baseline.shown(path), raw) for path, raw in gathered.contents.items()]
    named += [(str(path), "", raw) for path, raw in gathered.context.items()]
    rules = [*map(Path, gathered.settings.extend_rules), *options.python_rules]
    words = (gathered.settings, gathered.base, gathered.root, [files.absolute(path) for path in options.python_rules], options.output_format in CONCRETE)
    return cache.key(((f"{path}\n{name}", raw) for path, name, raw in named), repr(words), rule_files(rules))


def rule_files(paths: list[Path]) -> list[Path]:
    found = [file for path in paths for file in ([*path.rglob("*.md"), *path.rglob("*.py")] if path.is_dir() else [path.with_suffix(".md"), path.with_suffix(".py")])]
    return sorted(file for file in found if file.is_file())


def look(asked: Question) -> list[Diagnostic]:
    # Imported here: a cached answer needs none of the analysis.
    from xlaport.analysis.project import Project
    from xlaport.lint.check import check, undecodable

    sources, unread = asked.gathered.decoded()
    linter = linter_for(asked)
    found = check(linter, Project(asked.gathered.root, sources), looked_at(asked, sources), asked.options.jobs)
    if linter.settings.selects("XP001"):
        found += [undecodable(baseline.shown(path), error) for path, error in unread.items()]
    return sorted(found, key=lambda item: (item.file, item.cell or 0, item.line, item.column, item.code)) if unread else found


def looked_at(asked: Question, sources: Iterable[Path]) -> list[Path]:
    return [path for path in sources if path in asked.gathered.contents]


def linter_for(asked: Question):
    from xlaport.lint import check

    return check.linter_for(asked.gathered.settings, asked.gathered.base, tuple(asked.options.python_rules), asked.options.output_format in CONCRETE)


# -- what is fixed


def fix(asked: Question) -> int:
    """Apply fixes, and report what is left; or print them as a diff."""
    from xlaport.analysis.project import Project
    from xlaport.commands.migrate import print_bytes, unified
    from xlaport.lint import fixes

    sources, _ = asked.gathered.decoded()
    project = Project(asked.gathered.root, sources)
    changes = fixes.fix(linter_for(asked), project, looked_at(asked, sources), asked.options.unsafe_fixes, asked.baseline)
    changed = {path: change for path, change in changes.items() if not change.refused}
    failures = [f"{change.before.name}: not rewritten: {change.refused}" for change in changes.values() if change.refused]
    if asked.options.diff:
        print_bytes(b"".join(unified(change) for change in changed.values()))
        return finish(asked.options, 2 if failures else int(bool(changed)), failures)
    if asked.from_stdin:
        print_bytes(next((change.after.raw for change in changed.values()), next(iter(asked.gathered.contents.values()), b"")))
    else:
        failures += written(changed)
    made = sum(len(change.applied) for change in changed.values())
    notes = (f"{counted(made, 'finding')} fixed in {counted(len(changed), 'file')}",) if made else ()
    contents = {path: project.sources[path].raw if path in project.sources else raw for path, raw in asked.gathered.contents.items()}
    gathered = replace(asked.gathered, contents=contents, notes=asked.gathered.notes + notes, failures=asked.gathered.failures + tuple(failures))
    again = replace(asked, gathered=gathered)
    return report(again, diagnostics(again), sys.stderr if asked.from_stdin else sys.stdout)


def written(changed: dict) -> list[str]:
    """Put the results on disk; returns what could not be."""
    causes = [(change.before.name, files.write_changed(path, change.before.raw, change.after.raw)) for path, change in changed.items()]
    return [f"{name}: {cause}" for name, cause in causes if cause]


# -- what is said


def report(asked: Question, found: list[Diagnostic], out=None) -> int:
    options, gathered = asked.options, asked.gathered
    if options.write_baseline:
        return write_baseline(options, found)
    looked_at = {baseline.shown(path) for path in gathered.contents}
    gone = baseline.vanished(found, asked.baseline, looked_at)
    notes = [*gathered.notes, *([f"{counted(gone, 'entry', 'entries')} of the baseline no longer found: write it again"] if gone else [])]
    result = LintReport(tuple(baseline.new_in(found, asked.baseline)), len(gathered.contents), tuple(notes), gathered.failures)
    shown = import_module(f"xlaport.reports.lint.{options.output_format}")
    print_report: Callable = shown.statistics if options.statistics and hasattr(shown, "statistics") else shown.lint
    print_report(result, out or sys.stdout)
    if options.output_format != "text":
        for note in result.notes:
            print(f"note: {one_line(note)}", file=sys.stderr)
    return finish(options, result.exit_status, result.failures)


def write_baseline(options: argparse.Namespace, found: list[Diagnostic]) -> int:
    path = (options.baseline or DEFAULT_BASELINE) if options.write_baseline is True else options.write_baseline
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name the baseline's file after --write-baseline, or put the option last")
    print(f"{counted(baseline.write(path, found), 'finding')} written to {one_line(str(path))}")
    return 0


def finish(options: argparse.Namespace, status: int, failures: tuple[str, ...] | list[str]) -> int:
    for failure in failures:
        print(f"xlaport: {one_line(failure)}", file=sys.stderr)
    return 0 if options.exit_zero and status == 1 else status
