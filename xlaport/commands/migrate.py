"""`xlaport migrate`: rewrite a repository in place, into another folder, or as a diff."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from xlaport import baseline, collector, config, engine, files, notebook, projectfiles, residue, suppress
from xlaport.analysis.project import Project
from xlaport.commands import forms
from xlaport.engine import FileChange, Selection
from xlaport.errors import UserError, cause_of, one_line
from xlaport.findings import Finding, Grade
from xlaport.projectfiles import is_project_file
from xlaport.reports import migrate, terminal
from xlaport.reports.migrate import hunks
from xlaport.reports.migrate.model import FileOutcome, Report, Status
from xlaport.source import OtherLanguage, SourceFile, Undecodable, is_python, read
from xlaport.targets import PROFILES, SOURCES, choice
from xlaport.targets.base import Target

PLAIN = frozenset({Grade.SAFE, Grade.REQUIRED})
LINE = re.compile(rb"[^\n]*\n|[^\n]+")
"""A line as `git` and `patch` count them: other line ends belong to its text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or folders")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--diff", action="store_true", help="print a unified diff, write nothing; exit 1 if something would change")
    output.add_argument("--check", action="store_true", help="list the files that would change, write nothing; exit 1 if there are any")
    output.add_argument("--out", type=Path, metavar="DIR", help="write the port there and leave PATH alone")
    parser.add_argument("--report", type=Path, action="append", default=[], metavar="FILE", help="also write FILE (.html, .md, .sarif, .json or .txt); may be given again")
    parser.add_argument("--output-format", choices=migrate.FORMS, default="text")
    parser.add_argument("--json", dest="output_format", action="store_const", const="json", help="short for --output-format json")
    width = parser.add_mutually_exclusive_group()
    width.add_argument("--safe-only", action="store_true", help="only edits that keep the meaning on one device")
    width.add_argument("--unsafe-fixes", action="store_true", help="also edits that may change meaning")
    parser.add_argument("--select", metavar="CODES", help="only these rules (codes or prefixes, comma separated)")
    parser.add_argument("--ignore", metavar="CODES", help="not these rules")
    parser.add_argument("--distributed", choices=config.DISTRIBUTED, help="what DDP and FSDP become (default: auto)")
    parser.add_argument("--runtime-library", action="store_true", help="distributed programs are sharded by xlaport.runtime, which the port imports")
    parser.add_argument("--target", choices=PROFILES, help="what runs the program on a TPU (default: torch_xla)")
    parser.add_argument("--from", dest="source", choices=SOURCES, help="what the program is written for (default: cuda)")
    parser.add_argument("--force", action="store_true", help="edit files in place although they have unstaged changes")


def run(options: argparse.Namespace) -> int:
    with collector.paused():  # libcst's trees are none of its business either: no node knows its parent
        return migrated(options)


def migrated(options: argparse.Namespace) -> int:
    reports = forms.chosen(options.report, migrate.FORMS, options.out)
    forms.refuse_without_its_library(options.output_format, "--output-format html")
    if options.diff and options.output_format != "text":
        raise UserError("--diff prints a patch: for another form of the report beside it use --report")
    in_full = bool(reports) or options.output_format != "text"
    tree = files.find(options.paths)
    settings = settings_for(options, tree.root)
    sources, unread = read_all(tree, settings)
    selection = Selection(settings, grades(options))
    project = Project(tree.root, sources)
    python = [path for path in sources if is_python(path)]
    plans = tuple(engine.distributed_plans(project, settings)) if in_full else ()
    with terminal.progress(len(python)) as advance:
        changes = engine.migrate(project, selection, advance)
    changes = projectfiles.complete(changes, sources, selection, started_plainly(project, python))
    outcomes = sorted([*unread, *(outcome(change, in_full) for change in changes.values())], key=lambda item: item.name)
    is_written = not (options.diff or options.check)
    failed = write(options, tree, changes) if is_written else {}
    outcomes = with_failures(outcomes, failed)
    target = settings.profile
    report = Report(
        tuple(outcomes), target.name, target.versions, target.requirements, baseline.shown(options.out or tree.root), is_written,
        plans=plans, notes=notes(outcomes, sources, copied=bool(options.out)) + suited(sources, target),
    )
    report = completed(report, project, settings) if in_full else report
    forms.write(migrate.texts(report, reports))
    return show(options, report, changes)


def completed(report: Report, project: Project, settings: config.Settings) -> Report:
    """With what costs a look at the port: the torch APIs it calls, what its steps wait for, and the pages of the rules."""
    from xlaport.reports.migrate import apis, rules

    steps = tuple(engine.steps(project, settings))
    named = [finding.code for finding in (*report.applied, *report.manual, *steps)]
    return replace(report, apis=apis.used(project, settings.profile), steps=steps, rules=rules.notes(named, settings.target, settings.source))


SHARDED = re.compile(r"\buse_spmd\(\)")
WHY_PLAIN = "a sharded program is started once on each host: one process drives all its chips"


def started_plainly(project: Project, python: Iterable[Path]) -> dict[str, str]:
    """Files of the port, by name, that no launcher starts once for each chip, and why."""
    return {project.sources[path].name: WHY_PLAIN for path in python if project.program_mentions(path, SHARDED)}


def settings_for(options: argparse.Namespace, root: Path) -> config.Settings:
    settings = config.load(root)
    for name in ("select", "ignore"):
        value = getattr(options, name) or ",".join(getattr(settings, name))
        if value:
            settings = replace(settings, **{name: known_codes(value)})
    given = {name: value for name in ("distributed", "target", "source", "runtime_library") if (value := getattr(options, name))}
    return config.checked(replace(settings, **given), "these options") if given else settings


def known_codes(text: str) -> tuple[str, ...]:
    """Codes or prefixes of rules. Raises `UserError` for one that selects nothing."""
    from xlaport.ruleset import load

    codes = config.codes_of(text)
    load.refuse_unknown(codes, load.builtin())
    return codes


def grades(options: argparse.Namespace) -> frozenset[Grade]:
    if options.safe_only:
        return frozenset({Grade.SAFE})
    return PLAIN | {Grade.UNSAFE} if options.unsafe_fixes else PLAIN


def read_all(tree: files.Tree, settings: config.Settings) -> tuple[dict[Path, SourceFile], list[FileOutcome]]:
    """Sources of the run, and outcomes of the files that could not be read."""
    sources: dict[Path, SourceFile] = {}
    unread = [FileOutcome(name_of(path, tree), Status.SKIPPED, reason) for path, reason in tree.skipped if is_python(path) or os.path.isdir(path)]
    unread += [FileOutcome(f"{name_of(path, tree)}/", Status.FAILED, f"cannot be listed: {reason}") for path, reason in tree.unreadable]
    for path in tree.files:
        if not is_python(path) and not is_project_file(path):
            continue
        if settings.excludes(name_of(path, tree)):
            unread.append(FileOutcome(name_of(path, tree), Status.SKIPPED, "excluded by the settings"))
            continue
        try:
            decoded = read if is_python(path) else SourceFile.from_any_bytes
            sources[path] = decoded(path, name_of(path, tree), path.read_bytes())
        except OSError as error:
            unread.append(FileOutcome(name_of(path, tree), Status.FAILED, f"cannot be read: {cause_of(error)}"))
        except OtherLanguage as error:
            unread.append(FileOutcome(name_of(path, tree), Status.SKIPPED, str(error)))
        except Undecodable as error:
            unread.append(FileOutcome(name_of(path, tree), Status.FAILED if is_python(path) else Status.SKIPPED, str(error)))
    return sources, unread


def name_of(path: Path, tree: files.Tree) -> str:
    return path.relative_to(tree.root).as_posix()


def outcome(change: FileChange, in_full: bool) -> FileOutcome:
    """`in_full`: with the edits as hunks."""
    unparsed = next((f for f in change.remaining if f.code == engine.SYNTAX_CODE), None) if not change.before.broken else None
    changed = change.after.raw != change.before.raw
    status, reason = (Status.CHANGED if changed else Status.CLEAN), ""
    if change.refused:
        status, reason = Status.FAILED, f"not rewritten: {change.refused}"
    elif is_silenced(change.before):
        status, reason = Status.SKIPPED, "marked skip-file"
    elif unparsed is not None:
        status, reason = Status.FAILED, f"line {unparsed.location.line}: {unparsed.message}"
    waiting = {held.finding for held in change.held}
    told = engine.moved_to_original(change.after.text, change.before.text, tuple(f.left for f in change.applied if f.leaves))  # lines of the port
    left = [*(f for f in change.remaining if f not in waiting), *told]
    applied = tuple(f.located(change.before) for f in change.applied)
    return FileOutcome(
        name=change.before.name,
        status=status,
        reason=reason,
        hunks=hunks.of(change.before, change.after, applied) if in_full else (),
        applied=applied,
        manual=tuple(f.located(change.after) for f in left if not is_kept_name(f) and f is not unparsed),
        kept_names=tuple(f.located(change.after) for f in left if is_kept_name(f)),
        held=tuple(replace(held, finding=held.finding.located(change.after)) for held in change.held),
    )


def with_failures(outcomes: list[FileOutcome], failed: dict[str, str]) -> list[FileOutcome]:
    """The outcomes after writing, also of files that were only to be copied. What failed before keeps its cause."""
    named = {name: FileOutcome(name, Status.FAILED, cause) for name, cause in failed.items()}
    for item in outcomes:
        is_new = item.name in failed and item.status is not Status.FAILED
        named[item.name] = replace(item, status=Status.FAILED, reason=failed[item.name]) if is_new else item
    return [named[name] for name in sorted(named)]


def is_silenced(source: SourceFile) -> bool:
    read = suppress.read if is_python(source.path) else projectfiles.suppressions
    return read(source.text).skip_file


def is_kept_name(finding: Finding) -> bool:
    return finding.code == residue.KEPT_CODE


def notes(outcomes: list[FileOutcome], sources: Mapping[Path, SourceFile], copied: bool) -> tuple[str, ...]:
    found = []
    held = [waiting for item in outcomes for waiting in item.held]
    if held:
        found.append(f"{len(held)} edits wait for the rest of their group: {held[0].because}; half a port runs and does not train")
    submodules = [item.name for item in outcomes if item.reason.startswith(files.OTHER_REPOSITORY)]
    if submodules:
        found.append(f"git submodules were {'copied' if copied else 'left'} as they are, name their paths too to have them migrated: {', '.join(submodules)}")
    found += hosted(sources.values())
    if not any(item.applied or item.manual or item.status is Status.FAILED for item in outcomes):
        found.append("no CUDA idiom found: is this the right folder?")
    return tuple(found)


def hosted(sources: Iterable[SourceFile]) -> list[str]:
    """What is to be chosen by hand where notebooks are run by a host of notebooks."""
    found = [source for source in sources if isinstance(source, notebook.Notebook) and (source.host or source.wants_gpu)]
    if not found:
        return []
    names = first_names(source.name for source in found)
    asks = "; their metadata still ask for a GPU" if any(source.wants_gpu for source in found) else ""
    return [f"written for Colab or Kaggle, choose a TPU there (Runtime > Change runtime type; Settings > Accelerator){asks}: {names}"]


def first_names(names: Iterable[str]) -> str:
    """`a.py, b.py, c.py and 2 more`."""
    found = list(names)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def suited(sources: dict[Path, SourceFile], target: Target) -> tuple[str, ...]:
    """A sentence on the target that suits the project's torch, where it is another one."""
    listed = (source.text for path, source in sorted(sources.items()) if path.suffix in {".txt", ".in", ".toml", ".cfg", ".yml", ".yaml"})
    said = choice.sentence(choice.pinned(listed), target, PROFILES.values())
    return tuple(filter(None, (target.only_reports, said)))


# -- output


def write(options: argparse.Namespace, tree: files.Tree, changes: dict[Path, FileChange]) -> dict[str, str]:
    """Put the results on disk; returns name -> cause for those that could not be written."""
    changed = {path: change for path, change in changes.items() if change.after.raw != change.before.raw}
    if options.out:
        return write_elsewhere(options.out, tree, changed)
    if not options.force:
        refuse_unstaged(tree, list(changed))
    causes = {change.before.name: files.write_changed(path, change.before.raw, change.after.raw) for path, change in changed.items()}
    return {name: cause for name, cause in causes.items() if cause}


def refuse_unstaged(tree: files.Tree, paths: list[Path]) -> None:
    dirty = files.unstaged(paths)
    if dirty:
        raise UserError(f"{first_names(name_of(path, tree) for path in dirty)}: unstaged changes in git; stage or commit them, or use --force or --out")


def write_elsewhere(out: Path, tree: files.Tree, changed: dict[Path, FileChange]) -> dict[str, str]:
    """Copy every file of the tree to `out`, also those that were not looked at, changed ones in their new form."""
    target = files.absolute(out)
    if target == tree.root or tree.root in target.parents and target in tree.files:
        raise UserError(f"{out}: is the folder being migrated; choose another")
    failed = {}
    everything = (*tree.files, *(path for path, _ in tree.skipped), *tree.other_repositories)
    copied = [path for path in everything if target not in path.parents and not files.is_folder(path)]
    for path in copied:
        name = name_of(path, tree)
        try:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if path in changed:
                files.write_atomically(target / name, changed[path].after.raw, mode=path.stat().st_mode & 0o7777)
            else:
                files.copy_over(path, target / name, tree.root)
        except OSError as error:
            verb = "written" if path in changed else "copied"
            failed[name] = f"cannot be {verb}: {cause_of(error)}"
    if failed and len(failed) == len(copied):
        raise UserError(f"{out}: {next(iter(failed.values()))}")
    return failed


def show(options: argparse.Namespace, report: Report, changes: dict[Path, FileChange]) -> int:
    changed = [file for file in report.files if file.status is Status.CHANGED]
    if options.diff:
        print_bytes(b"".join(unified(changes[path]) for path in sorted(changes)))
    elif options.check and options.output_format == "text":
        for file in changed:
            print(f"would change {one_line(file.name)}")
    shows_files = (options.diff or options.check) and options.output_format == "text"
    migrate.form(options.output_format)(report, sys.stderr if shows_files else sys.stdout, tuple(map(str, options.report)))
    if report.count(Status.FAILED):
        return 2
    return 1 if changed and (options.diff or options.check) else 0


def unified(change: FileChange) -> bytes:
    """A patch `git apply` and `patch -p1` accept: in the file's own encoding, missing final newlines marked. Of a notebook, its cells one by one."""
    name = change.before.name.lstrip("/")  # as git names a file by its whole path
    pairs = zip(change.before.documents, change.after.documents)
    return b"".join(difference(os.fsencode(name + part), before, after) for (part, before), (_, after) in pairs)


def difference(name: bytes, before: bytes, after: bytes) -> bytes:
    lines = difflib.diff_bytes(difflib.unified_diff, LINE.findall(before), LINE.findall(after), b"a/" + name, b"b/" + name)
    return b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)


def print_bytes(text: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
