"""Files that are not Python: requirements, pyproject, conda, launch scripts, YAML, JSON and TOML settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from xlaport import notebook
from xlaport.engine import CRASH_CODE, RESTLESS, FileChange, Selection, guarded, moved_to_original
from xlaport.findings import Finding
from xlaport.projectfiles import (
    conda, dockerfile, json_values, notebook_commands, pyproject, requirements, settings_keys, setup_cfg, setup_py, shell, toml_values, yaml_values,
)
from xlaport.projectfiles.belonging import of_other_frameworks
from xlaport.projectfiles.malformed import Malformed
from xlaport.projectfiles.view import View, overlap, pages, spliced
from xlaport.source import NOTEBOOK, SourceFile, lines_of
from xlaport.suppress import COMMENT, Suppressions

MAX_PASSES = 5
"""Two are usual: removing neighbours may need one each."""

MAX_SETTINGS = 200_000
"""Larger YAML and JSON files are data."""

WORTH_READING = re.compile(
    r"torch|cuda|nvidia|nccl|gpu|fp16|float16|precision|apex|flash|xformers|bitsandbytes|deepspeed|triton|pynvml|cupy|half"
    r"|distributed_type|zero_optimization|SBATCH|TPU_",
    re.IGNORECASE,
)

NOTHING: Mapping[str, str] = MappingProxyType({})
Checker = Callable[[View], Iterator[Finding]]

REQUIREMENTS = re.compile(r"(?:.*[-_.])?(?:requirements?|constraints?|reqs)(?:[-_.].*)?\.(?:txt|in|pip)$", re.IGNORECASE)
JSON_SETTINGS = re.compile(
    r"(?:.*[-_.])?(?:config(?:uration)?s?|settings?|params?|hparams|args|ds|deepspeed|train(?:ing)?|options?|opts?)(?:[-_.].*)?\.json$",
    re.IGNORECASE,
)
SETTINGS_FOLDERS = frozenset({"config", "configs", "conf", "confs", "cfg", "cfgs", "settings", "experiments", "options", "hparams"})
NOT_SETTINGS = re.compile(
    r"\..*|.*[-_.]lock\..*|package(?:-lock)?\.json|tsconfig.*|.*(?:tokenizer|vocab|merges|special_tokens|generation_config|preprocessor_config).*"
    r"|(?:mkdocs|(?:docker-)?compose.*|action|codecov|_toctree|.*pipelines?|appveyor|dependabot)\.ya?ml|cargo\.toml",
    re.IGNORECASE,
)
LEFT_ALONE = frozenset({"docs", "doc", "node_modules", "site-packages", "third_party", "triton"})
"""Folders whose files no training program reads (`triton` holds what serves a model); so are hidden ones (`.github`), for CI."""


def is_project_file(path: Path) -> bool:
    """By name, and size where a file may be data; the folders are looked at in `migrate`, where they are relative."""
    if checker_for(path) is None:
        return False
    if path.suffix.lower() not in {".yaml", ".yml", ".json", ".toml"}:
        return True
    try:
        return path.stat().st_size <= MAX_SETTINGS
    except OSError:
        return False


def checker_for(path: Path) -> Checker | None:
    """The function that knows this kind of file."""
    name, suffix = path.name, path.suffix.lower()
    if name in {"pyproject.toml", "Pipfile"}:
        return pyproject.check
    if name == "setup.cfg":
        return setup_cfg.check
    if name == "setup.py":
        return setup_py.check
    if suffix == NOTEBOOK:
        return notebook_commands.check
    if REQUIREMENTS.match(name) or suffix in {".txt", ".in"} and "requirements" in path.parts:
        return requirements.check
    if suffix in {".sh", ".bash", ".zsh", ".slurm", ".sbatch"}:
        return shell.check
    if name.startswith("Dockerfile") or suffix == ".dockerfile":
        return dockerfile.check
    if name in {"Makefile", "makefile", "GNUmakefile"} or suffix == ".mk":
        return dockerfile.check_makefile
    if NOT_SETTINGS.fullmatch(name):
        return None
    if suffix in {".yaml", ".yml"}:
        return check_yaml
    if suffix == ".toml":
        return check_toml
    if suffix == ".json" and (JSON_SETTINGS.match(name) or SETTINGS_FOLDERS.intersection(path.parts)):
        return check_json
    return None


def complete(
    changes: Mapping[Path, FileChange], sources: Mapping[Path, SourceFile], selection: Selection, started: Mapping[str, str] = NOTHING
) -> dict[Path, FileChange]:
    """The changes of a project's Python files, and those of its other files. `started`: see `View`."""
    foreign = of_other_frameworks(sources)
    done = {path: with_requirements(change, selection) for path, change in changes.items()}
    for path, source in sources.items():
        if path not in done:
            done[path] = FileChange(source, source) if path in foreign else migrate(source, selection, started)
    return done


def migrate(source: SourceFile, selection: Selection, started: Mapping[str, str] = NOTHING) -> FileChange:
    """Apply the selected edits to one file in memory, until nothing changes."""
    change = FileChange(source, source)
    for _ in range(MAX_PASSES):
        found = findings_in(change.after, selection, started)
        done = chosen(found, selection)
        change = replace(change, remaining=tuple(f for f in found if f not in done))
        if not done:
            return change
        text = spliced(change.after.text, [op for finding in done for op in finding.fix.ops])
        moved = moved_to_original(change.before.text, change.after.text, done)
        change = replace(change, after=change.after.with_text(text), applied=change.applied + moved)
    return FileChange(source, source, remaining=tuple(findings_in(source, selection, started)), refused=RESTLESS)


def with_requirements(change: FileChange, selection: Selection) -> FileChange:
    """A Python file after its rules; the requirements in setup.py, and the commands in the cells of a notebook, migrated as well."""
    is_notebook = isinstance(change.after, notebook.Notebook)
    if change.before.path.name != "setup.py" and not is_notebook or change.refused:
        return change
    more = migrate(change.after.as_written if is_notebook else change.after, selection)
    if more.refused:
        left = change.applied + moved_to_original(change.before.text, change.after.text, change.remaining + more.remaining)
        return FileChange(change.before, change.before, remaining=left, refused=more.refused)
    if not more.applied and not more.remaining:
        return change
    return replace(
        change,
        after=replace(change.after, raw=more.after.raw),
        applied=change.applied + moved_to_original(change.before.text, change.after.text, more.applied),
        remaining=moved_to_original(more.after.text, change.after.text, change.remaining) + more.remaining,
    )


def chosen(found: list[Finding], selection: Selection) -> tuple[Finding, ...]:
    """Findings whose edits are selected and do not overlap those of one before."""
    done: list[Finding] = []
    taken = []
    for finding in found:
        if selection.allows(finding) and not any(overlap(op, taken) for op in finding.fix.ops):
            done.append(finding)
            taken += finding.fix.ops
    return tuple(done)


def findings_in(source: SourceFile, selection: Selection, started: Mapping[str, str] = NOTHING) -> list[Finding]:
    """Findings in one file, suppressed ones left out, in source order."""
    checker = checker_for(Path(source.name))
    if checker is None or is_left_alone(source.name) or not WORTH_READING.search(source.text):
        return []
    silenced = suppressions(source.text)
    if silenced.skip_file:
        return []
    view = View(source, selection.settings.profile, started)
    try:
        found = list(guarded(checker(view), source.name, checker.__module__, passed=(Malformed,)))
    except Malformed as error:
        found = [view.finding("XP879", 0, 0, f"not looked at, {error}")]
    spoken = pages(selection.settings.target)
    kept = (f for f in found if (f.code in spoken or f.code == CRASH_CODE) and not silenced.silence(f.code, f.location.line, f.location.end_line))
    return sorted(dict.fromkeys(kept), key=lambda finding: finding.sort_key)


def is_left_alone(name: str) -> bool:
    return any(folder in LEFT_ALONE or folder.startswith(".") for folder in Path(name).parts[:-1])


def suppressions(text: str) -> Suppressions:
    """Comments as in Python files; here any `#` may start one."""
    lines: dict[int, frozenset[str]] = {}
    skip = False
    if "xlaport:" in text:
        for number, line in enumerate(lines_of(text), 1):
            found = COMMENT.search(line)
            if found and found[1] == "skip-file":
                skip = True
            elif found:
                lines[number] = frozenset(code.strip() for code in (found[2] or "").split(",")) - {""}
    return Suppressions(lines, skip)


# -- settings

CONDA = re.compile(r"^dependencies:", re.MULTILINE)


def check_yaml(view: View) -> Iterator[Finding]:
    if not (settings_keys.WORTH_READING.search(view.text) or CONDA.search(view.text)):
        return
    scalars = yaml_values.scalars(view.text)
    if conda.is_environment(scalars):
        yield from conda.check(view, scalars)
    else:
        yield from settings_keys.check(view, scalars, lambda scalar: scalar.in_sequence)


def check_toml(view: View) -> Iterator[Finding]:
    yield from settings_keys.check(view, toml_values.values(view.text), lambda value: value.in_array)


def check_json(view: View) -> Iterator[Finding]:
    yield from settings_keys.check(view, json_values.values(view.text), lambda value: value.in_array)
