"""Files that a report is written to: the form by the name's ending, several in one step."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from xlaport import files
from xlaport.errors import UserError, cause_of

ENDINGS = {".txt": "text", ".md": "markdown", ".comment.md": "comment", ".json": "json", ".sarif": "sarif", ".sarif.json": "sarif", ".html": "html"}
UNNAMED = "markdown"
"""The form of what goes to a pipe or terminal (`/dev/stdout`), whose name says nothing."""


def chosen(paths: Iterable[Path], forms: Collection[str], made: Path | None = None) -> dict[Path, str]:
    """Path -> form. Raises `UserError` for an ending that names none of `forms`, and for what could not be written.

    `made`: a folder that the run makes.
    """
    found = {path: form_of(path, forms) for path in paths}
    for path, form in found.items():
        refuse_unwritable(path, made)
        refuse_without_its_library(form, str(path))
    return found


def form_of(path: Path, forms: Collection[str]) -> str:
    if not path.suffix and files.is_stream(path) and not path.is_dir():
        return UNNAMED
    found = {ending: form for ending, form in ENDINGS.items() if form in forms}
    ending = max((ending for ending in found if path.name.lower().endswith(ending)), key=len, default=None)
    if ending is None or path.name.lower() == ending:
        raise UserError(f"{path}: a report ends in {', '.join(found)}")
    return found[ending]


def refuse_unwritable(path: Path, made: Path | None = None) -> None:
    folder = files.absolute(path).parent
    in_made = made is not None and files.absolute(made) in (folder, *folder.parents)
    if in_made and not folder.exists():
        return
    if not in_made and not folder.is_dir():
        raise UserError(f"{path}: no such folder")
    cause = files.refusal(path)
    if cause:
        raise UserError(f"{path}: cannot be written: {cause}")


def refuse_without_its_library(form: str, name: str) -> None:
    """A form that cannot be made is refused before the work."""
    from importlib.util import find_spec

    if form == "html" and find_spec("jinja2") is None:
        raise UserError(f"{name}: HTML needs Jinja2, of the extra `report`: pip install 'xlaport[report]'")


def write(texts: dict[Path, str]) -> None:
    """Write all of them or none. Raises `UserError`."""
    made = {path: text.encode("utf-8", "backslashreplace") for path, text in texts.items()}
    for path in made:
        try:
            files.absolute(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {cause_of(error)}") from None
    try:
        files.write_all(made)
    except OSError as error:
        name = error.filename or " ".join(map(os.fspath, made))
        raise UserError(f"{name}: cannot be written: {cause_of(error)}") from None
