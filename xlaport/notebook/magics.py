"""What IPython understands in a cell and Python does not: `%magic`, `!command`, `?help`, `%%cell`.

Each such line becomes a statement that calls what nobody defines, with the line in a comment behind it. So the cell parses, no rule
has anything to say of the line, and it can be put back wherever the statement is after an edit. Grammar: IPython's
`core/inputtransformer2.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from xlaport.source import lines_of

PYTHON_CELLS = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "heat", "wandb"})
"""Cell magics whose body is Python of the same process."""

CELL_MAGIC = re.compile(r"%%(?P<name>[\w!]+)")
LINE_MAGIC = re.compile(r"(?P<indent>[ \t]*)(?:[!?]|%(?=[\w%]))")
ASSIGNED = re.compile(r"(?P<indent>[ \t]*)(?P<target>[\w.,*()\[\] \t\"']+?)[ \t]*=[ \t]*(?:!|%(?=\w))")
HELP = re.compile(r"(?P<indent>[ \t]*)%{0,2}[A-Za-z_*][\w.*\[\]]*\?\??[ \t]*;?[ \t]*$")
AUTOMAGIC = re.compile(r"(?P<indent>[ \t]*)(?:pip3?|conda|mamba|cd|ls|mkdir|cp|mv|rm|cat|run|load_ext|matplotlib)[ \t]+(?![=.,:;)\]+*/%&|^@]|(?:in|is|and|or|not|if)\b)\S")
"""Magics that IPython also takes without `%`."""

TOKEN = re.compile(r"#.*|\"\"\"|'''|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|[()\[\]{}]|\\\r?$", re.MULTILINE)


def as_python(source: str, word: str) -> str:
    """A cell, line for line, with a statement in place of each line of IPython's."""
    lines = lines_of(source)
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    cell_magic = CELL_MAGIC.match(lines[first]) if lines else None
    if cell_magic and cell_magic["name"] not in PYTHON_CELLS:
        return opaque(source, word)
    made, position = [], 0
    starts = set(logical_starts(lines, first + 1 if cell_magic else 0))
    while position < len(lines):
        line = lines[position]
        is_first = position == first and cell_magic
        found = None
        if is_first or position in starts:
            found = (LINE_MAGIC.match(line) or ASSIGNED.match(line) or HELP.match(line.rstrip()) or AUTOMAGIC.match(line))
        if not found:
            made.append(line)
            position += 1
            continue
        target = found.groupdict().get("target")
        made.append(statement(line, word, found["indent"], f"{target} = " if target else ""))
        while line.rstrip("\r\n").endswith("\\") and position + 1 < len(lines) and not is_first:
            position += 1
            line = lines[position]
            made.append(statement(line, word, found["indent"], whole=True))
        position += 1
    return "".join(made)


def indentation(source: str) -> str:
    """The blanks before the first line of a cell, which IPython takes away from all of its lines."""
    first = next((line for line in lines_of(source) if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]


def dedented(source: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in lines_of(source))


def indented(source: str, indent: str) -> str:
    return "".join(indent + line if line.strip() else line for line in lines_of(source))


def opaque(source: str, word: str) -> str:
    """A cell of which nothing is Python, or that does not parse."""
    return "".join(statement(line, word, "", whole=True) for line in lines_of(source))


def statement(line: str, word: str, indent: str, target: str = "", whole: bool = False) -> str:
    """`whole`: the line is put back with the indentation it has now, else with that of the statement."""
    body = line.rstrip("\r\n")
    kept = json.dumps(body if whole else body[len(indent) :])
    return f"{indent}{target}get_ipython()  # {word}-{'whole' if whole else 'line'} {kept}{line[len(body):]}"


def restored(text: str, word: str, printable: bool = False) -> str:
    """The text with the lines of IPython's in place of their statements. `printable`: but those that no encoding can hold."""

    def line(found: re.Match[str]) -> str:
        kept = json.loads(found["kept"])
        if printable and not is_encodable(kept):
            return found[0]
        return kept if found["kind"] == "whole" else found["indent"] + kept

    start = r"(?<![^\r\n])(?P<indent>[ \t]*)[^\r\n]*?"
    return re.sub(rf"{start}get_ipython\(\)  # {word}-(?P<kind>line|whole) (?P<kept>\"[^\r\n]*\")", line, text)


def is_encodable(text: str) -> bool:
    """Half of a surrogate pair, which JSON may escape, is no character."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def logical_starts(lines: list[str], first: int) -> Iterator[int]:
    """Indexes of the lines on which a statement may start: not in brackets or in a string, not after a backslash."""
    depth, quote, continued = 0, "", False
    for index, line in enumerate(lines):
        if index < first:
            continue
        at_start = not (depth or quote or continued)
        if at_start:
            yield index
        continued = False
        if at_start and LINE_MAGIC.match(line):
            continued = line.rstrip("\r\n").endswith("\\")
            continue
        position = 0
        while position < len(line):
            if quote:
                end = closing(line, quote, position)
                if end < 0:
                    break
                quote, position = "", end
                continue
            found = TOKEN.search(line, position)
            if not found:
                break
            token, position = found[0], found.end()
            if token in ('"""', "'''"):
                quote = token
            elif token in "([{":
                depth += 1
            elif token in ")]}":
                depth = max(depth - 1, 0)
            elif token.startswith("\\"):
                continued = True


def closing(line: str, quote: str, position: int) -> int:
    """Behind the end of a string in triple quotes; -1 where it goes on."""
    found = re.compile(rf"(?:\\.|(?!{quote}).)*?{quote}", re.DOTALL).match(line, position)
    return found.end() if found else -1
