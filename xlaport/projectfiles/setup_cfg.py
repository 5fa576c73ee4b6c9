"""setup.cfg: install_requires, extras_require and python_requires of setuptools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xlaport.findings import Finding
from xlaport.projectfiles import python_version, requirements
from xlaport.projectfiles.view import View
from xlaport.source import lines_of

SECTION = re.compile(r"^\[(?P<name>[^\]\n]+)\][ \t]*(?:[#;].*)?\r?$")
KEY = re.compile(r"^(?P<key>[\w.-]+)[ \t]*[=:][ \t]*")
LISTS = {("options", "install_requires"), ("options", "setup_requires"), ("options", "tests_require")}


@dataclass(frozen=True)
class Option:
    """One option; its value is at `start:end`, over several lines maybe."""

    section: str
    key: str
    start: int
    end: int


def check(view: View) -> Iterator[Finding]:
    for option in options(view.text):
        where = (option.section, option.key)
        if where in LISTS or option.section == "options.extras_require":
            extra = option.key if option.section == "options.extras_require" else ""
            yield from requirements.findings_in_lines(view, requirements.lines(view.text, option.start, option.end), optional=extra)
        elif where == ("options", "python_requires") and "torch" in view.text:
            yield from python_version.findings(view, option.start, option.end)


def options(text: str) -> Iterator[Option]:
    """Every option, by indentation as configparser reads it."""
    section, current, position = "", None, 0
    for line in lines_of(text):
        end = position + len(line.rstrip("\r\n"))
        head = SECTION.match(line.rstrip("\n"))
        key = KEY.match(line)
        if head or key:
            if current:
                yield current
            current = None
        if head:
            section = head["name"].strip()
        elif key:
            current = Option(section, key["key"], position + key.end(), end)
        elif current and (line[0] in " \t" or not line.strip() or line[0] in "#;"):
            current = Option(current.section, current.key, current.start, end)
        position += len(line)
    if current:
        yield current
