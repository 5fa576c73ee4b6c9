"""A baseline: findings that a team has accepted for now. Only what is not in it is reported.

An entry is a file, a code and the text of the line, with how often they occur together: lines that move keep their place in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePath

from xlaport import files
from xlaport.diagnostics import Diagnostic
from xlaport.errors import UserError, cause_of

Key = tuple[str, str, str]
"""File (as it is named in a report), code, text of the line."""

Baseline = Counter[Key]


def key_of(file: str, code: str, text: str) -> Key:
    return file, code, " ".join(text.split())


def key(found: Diagnostic) -> Key:
    return key_of(found.file, found.code, found.text)


def new_in(diagnostics: Iterable[Diagnostic], baseline: Baseline) -> list[Diagnostic]:
    """What is not in the baseline; of several alike the first ones are."""
    left = baseline.copy()
    found = []
    for diagnostic in diagnostics:
        if left[key(diagnostic)] > 0:
            left[key(diagnostic)] -= 1
        else:
            found.append(diagnostic)
    return found


def vanished(diagnostics: Iterable[Diagnostic], baseline: Baseline, looked_at: set[str]) -> int:
    """Entries of the files looked at that are found no more."""
    left = baseline - Counter(map(key, diagnostics))
    return sum(count for (file, _, _), count in left.items() if file in looked_at or not Path(file).exists())


def read(path: Path) -> Baseline:
    """Files in a baseline are relative to its folder. Raises `UserError`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = {
            key_of(shown(path.parent / item["file"]), item["code"], item["text"]): int(item["count"]) for item in document["findings"]
        }
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {cause_of(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: not a baseline; write it with --write-baseline") from None
    return Counter(entries)


def write(path: Path, diagnostics: Iterable[Diagnostic]) -> int:
    """Returns the number of findings in it. Raises `UserError`."""
    counted = Counter(map(key, diagnostics))
    entries = [
        {"file": relative(file, path.parent), "code": code, "text": text, "count": count}
        for (file, code, text), count in sorted(counted.items())
    ]
    try:
        files.write(path, (json.dumps({"version": 1, "findings": entries}, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {cause_of(error)}") from None
    return counted.total()


def relative(file: str, folder: Path) -> str:
    import os

    return PurePath(os.path.relpath(file, folder)).as_posix()


def shown(path: Path) -> str:
    """A file as reports name it: relative to the working directory where it is below it."""
    path, here = files.absolute(path), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()
