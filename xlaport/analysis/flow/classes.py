"""Classes of a file: their methods, and what kind of class they are."""

from __future__ import annotations

import ast

from xlaport.analysis.facts import FUNCTIONS, ModuleFacts
from xlaport.analysis.values import last_name

DEEPEST = 4
"""Bases of bases that are looked through for a method."""


class Classes:
    """The classes of one file by name. Methods are remembered: the same are looked for at each call."""

    def __init__(self, facts: ModuleFacts):
        self.by_name: dict[str, ast.ClassDef] = {node.name: node for node in facts.of(ast.ClassDef)}
        self._set: dict[ast.ClassDef, list[str]] = {}
        self._found: dict[tuple[ast.ClassDef, str], ast.FunctionDef | None] = {}

    def method_of(self, owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
        """The method of a class, or of its bases in the file."""
        key = (owner, name)
        if key not in self._found:
            self._found[key] = self._method_of(owner, name, 0)
        return self._found[key]

    def attributes_set_in(self, owner: ast.ClassDef) -> list[str]:
        """Names of attributes that the code of a class gives a value, sorted."""
        if owner not in self._set:
            stores = (node for node in ast.walk(owner) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
            self._set[owner] = sorted({node.attr for node in stores})
        return self._set[owner]

    def _method_of(self, owner: ast.ClassDef, name: str, depth: int) -> ast.FunctionDef | None:
        for member in owner.body:
            if isinstance(member, FUNCTIONS) and member.name == name:
                return member
        for base in owner.bases if depth < DEEPEST else ():
            parent = self.by_name.get(last_name(base))
            if parent is not None and parent is not owner:
                found = self._method_of(parent, name, depth + 1)
                if found is not None:
                    return found
        return None


def is_property(function: ast.FunctionDef) -> bool:
    return any(last_name(item) in {"property", "cached_property"} for item in function.decorator_list)


def is_autograd_function(owner: ast.ClassDef) -> bool:
    return any(last_name(base) == "Function" for base in owner.bases)
