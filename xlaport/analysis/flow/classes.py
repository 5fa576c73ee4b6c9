"""Classes of a file: their methods, and what kind of class they are."""

from __future__ import annotations

import ast

from xlaport.analysis.facts import FUNCTIONS
from xlaport.analysis.values import last_name


def method_of(owner: ast.ClassDef, name: str, classes: dict[str, ast.ClassDef], depth: int = 0) -> ast.FunctionDef | None:
    """The method of a class, or of its bases in the file."""
    for member in owner.body:
        if isinstance(member, FUNCTIONS) and member.name == name:
            return member
    for base in owner.bases if depth < 4 else ():
        parent = classes.get(last_name(base))
        if parent is not None and parent is not owner:
            found = method_of(parent, name, classes, depth + 1)
            if found is not None:
                return found
    return None


def is_property(function: ast.FunctionDef) -> bool:
    return any(last_name(item) in {"property", "cached_property"} for item in function.decorator_list)


def is_autograd_function(owner: ast.ClassDef) -> bool:
    return any(last_name(base) == "Function" for base in owner.bases)
