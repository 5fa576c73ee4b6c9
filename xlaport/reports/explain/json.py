"""What a log means, as JSON: `version`, then `found` (the root first), `unrecognised` and `nearest`. Lines count from 1, sizes are bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, TextIO

from xlaport.explain.pages import Entry
from xlaport.explain.recognise import Diagnosis, Found
from xlaport.explain.tracebacks import Frame

VERSION = 1


def diagnosis(found: Diagnosis, near: tuple[Entry, ...], name: str, out: TextIO) -> None:
    left = found.unrecognised
    document = {
        "version": VERSION,
        "log": name,
        "lines": found.lines,
        "explained": found.is_explained,
        "found": [message(one) for one in found.found],
        "unrecognised": {"line": left.line, "message": left.message, "code_place": place(left.frame)} if left else None,
        "nearest": [{"code": entry.code, "name": entry.name, "summary": entry.summary} for entry in near],
    }
    print(json.dumps(document, indent=2), file=out)


def message(one: Found) -> dict[str, Any]:
    memory = one.breakdown
    return entry_as_json(one.entry) | {
        "line": one.line,
        "last_line": one.last,
        "count": one.count,
        "message": one.message,
        "code_place": place(one.frame),
        "memory": asdict(memory) if memory else None,
    }


def place(frame: Frame | None) -> dict[str, Any] | None:
    return {"file": frame.file, "line": frame.line, "function": frame.function, "source": frame.code} if frame else None


def entry_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "code": entry.code, "name": entry.name, "summary": entry.summary, "area": entry.area, "role": entry.role.value,
        "rules": list(entry.rules), **{title.lower(): text for title, text in entry.sections.items()},
    }


def listing(entries: tuple[Entry, ...], out: TextIO) -> None:
    print(json.dumps({"version": VERSION, "entries": [entry_as_json(entry) for entry in entries]}, indent=2), file=out)
