"""How the committed tables of operators are written: lists in lines that keep a diff readable."""

from __future__ import annotations

import json
from collections import defaultdict


def wrapped(names: list[str]) -> str:
    """A list, one line for each first letter."""
    lines: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        lines[name.lstrip("_")[:1]].append(name)
    return "[\n" + ",\n".join(f"  {json.dumps(group)[1:-1]}" for group in lines.values()) + "\n ]"


def aten(lists: dict[str, list[str]]) -> str:
    """The entry of the operators, by how they resolve."""
    return ' "aten": {\n ' + ",\n ".join(f"{json.dumps(kind)}: {wrapped(names)}" for kind, names in lists.items()) + "\n }"


def head(table: dict) -> list[str]:
    """The entries before the tables."""
    return [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items() if key not in ("aten", "apis")]
