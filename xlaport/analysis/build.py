"""From a file's text to `ModuleFacts`: one `ast.parse`, one traversal."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict

from xlaport.analysis.facts import LEAVES, ModuleFacts
from xlaport.source import SourceFile

SKIPPED_FIELDS = {
    "ctx", "op", "ops", "type_comment", "kind", "conversion", "type_ignores", "type_params", "id", "arg", "attr", "module", "level",
    "asname", "rest", "simple", "is_async", "kwd_attrs", "tag", "str",
}
"""What holds no node, or one that says nothing of its place."""

NAMES = {"name", "names"}
NAMED_BY_NODES = {"Import", "ImportFrom", "TypeAlias"}
"""Their names are nodes, those of all others strings."""

CHILD_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in reversed(kind._fields) if name not in SKIPPED_FIELDS and (name not in NAMES or kind.__name__ in NAMED_BY_NODES))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""Fields with nodes, last one first. `value` of a constant is none."""

CHILD_FIELDS[ast.Constant] = CHILD_FIELDS[ast.MatchSingleton] = ()


class Unparsable(Exception):
    """The file is not Python of the version that runs us. `line` counts from 1."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(message)
        self.line = line
        self.column = column


def build(source: SourceFile) -> ModuleFacts:
    """Parse and index one file. Raises `Unparsable`; never runs any of it."""
    tree = parse(source.text)
    nodes: defaultdict[type, list[ast.AST]] = defaultdict(list)
    tree.parent = None
    stack: list[ast.AST] = [tree]
    pop, push, fields, leaf, attribute = stack.pop, stack.append, CHILD_FIELDS, LEAVES, ast.Attribute
    while stack:
        node = pop()
        kind = node.__class__
        while kind is attribute:  # a fifth of all nodes: each holds one, which comes next
            nodes[kind].append(node)
            inner = node.value
            inner.parent = node
            node, kind = inner, inner.__class__
        nodes[kind].append(node)
        if kind in leaf:  # half of all nodes
            continue
        for name in fields[kind]:
            child = getattr(node, name)
            if child.__class__ is list:
                for item in reversed(child):
                    if item is not None:  # a key of `{**other}`, a keyword without default
                        item.parent = node
                        push(item)
            elif child is not None:
                child.parent = node
                push(child)
    mark_dead(nodes[ast.If])
    return ModuleFacts(source, tree, dict(nodes), held_by_fstrings(nodes[ast.JoinedStr]))


def mark_dead(conditions: list[ast.If]) -> None:
    """Nodes below `if False:` / `if 0:`, or in the branch that `if True:` never takes, get an attribute `is_dead`."""
    for condition in conditions:
        if isinstance(condition.test, ast.Constant):
            for statement in condition.orelse if condition.test.value else condition.body:
                for node in ast.walk(statement):
                    node.is_dead = True


def parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the user's strings are not our business
        try:
            return ast.parse(text)
        except SyntaxError as error:
            raise Unparsable(error.msg, error.lineno or 1, error.offset or 1) from None
        except (RecursionError, MemoryError):
            raise Unparsable("nested too deeply for Python's parser", 1, 1) from None
        except ValueError as error:
            raise Unparsable(str(error), 1, 1) from None


def held_by_fstrings(fstrings: list[ast.JoinedStr]) -> dict[int, ast.JoinedStr]:
    """`id` of every node below an f-string -> the innermost f-string around it."""
    held: dict[int, ast.JoinedStr] = {}
    for outer in fstrings:  # in source order, so an inner f-string overwrites what its outer one set
        for node in ast.walk(outer):
            if node is not outer:
                held[id(node)] = outer
    return held
