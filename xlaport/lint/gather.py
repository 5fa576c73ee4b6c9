"""The files of a run as bytes, with the settings that hold for them. Nothing is decoded: a cached answer needs no text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xlaport import config, files
from xlaport.baseline import shown
from xlaport.errors import cause_of
from xlaport.imports import read_imported
from xlaport.source import SourceFile, Undecodable, is_python, python_in, read

CONTEXT = 24
"""Files read for what they say of the named ones: as many as the analysis consults for one file."""


@dataclass(frozen=True)
class Gathered:
    """`contents` are in the order of their paths. `base` is the folder of the settings; `notes` and `failures` are for the user.

    `context`: files that those named one by one import. They are not looked at, and say what a value of the others is.
    """

    root: Path
    base: Path
    settings: config.Settings
    contents: dict[Path, bytes]
    context: dict[Path, bytes]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def decoded(self) -> tuple[dict[Path, SourceFile], dict[Path, Undecodable]]:
        """Sources, those of the context among them, and why others have no text."""
        sources, undecodable = {}, {}
        for path, raw in [*self.contents.items(), *self.context.items()]:
            try:
                sources[path] = read(path, shown(path), raw)
            except Undecodable as error:
                undecodable |= {path: error} if path in self.contents else {}
        return sources, undecodable


def from_paths(paths: list[Path]) -> Gathered:
    """Python files and notebooks below folders, and files that are named whatever their suffix. Raises `UserError`."""
    tree = files.find(paths)
    settings, base = settings_for(tree.root)
    named = {files.absolute(path) for path in paths}
    contents: dict[Path, bytes] = {}
    failures = [f"{shown(path)}: cannot be listed: {reason}" for path, reason in tree.unreadable]
    for path in tree.files:
        if not is_python(path) and path not in named or settings.excludes(path.relative_to(base).as_posix()):
            continue
        try:
            contents[path] = path.read_bytes()
        except OSError as error:
            failures.append(f"{shown(path)}: cannot be read: {cause_of(error)}")
    root = project_root(base)
    context = read_imported({path: python_in(path, raw) for path, raw in contents.items() if path in named}, root, CONTEXT)
    others = {path: raw for path, raw in context.items() if path not in contents}
    return Gathered(root, base, settings, contents, others, tuple(skipped(paths, tree)), tuple(failures))


def project_root(base: Path) -> Path:
    """From where absolute imports are looked for: the top of the work tree, or what is above the packages a folder is in."""
    top = files.work_tree(base)
    if top is not None and base.is_relative_to(top):
        return top
    return next(folder for folder in (base, *base.parents) if not (folder / "__init__.py").exists())


def skipped(paths: list[Path], tree: files.Tree) -> list[str]:
    """Files that are left out though someone may count on them: those that were named, and large ones."""
    named = [(path, files.skip_reason(files.absolute(path), tree.root)) for path in paths if not files.is_folder(path)]
    large = [(path, reason) for path, reason in tree.skipped if path.suffix == ".py" and reason.startswith("larger")]
    return [f"{shown(path)} was not looked at: {reason}" for path, reason in [*named, *large] if reason]


def from_text(raw: bytes, name: Path) -> Gathered:
    """One file of that name, as an editor hands it over."""
    path = files.absolute(name)
    settings, base = settings_for(path.parent)
    contents = {} if settings.excludes(path.relative_to(base).as_posix()) else {path: raw}
    root = project_root(base)
    code = {path: python_in(path, raw) for path, raw in contents.items()}
    return Gathered(root, base, settings, contents, read_imported(code, root, CONTEXT))


def settings_for(root: Path) -> tuple[config.Settings, Path]:
    file = config.file_for(root)
    return (config.from_file(file), file.parent) if file else (config.Settings(), root)
