"""Which functions leave something behind when they run outside of a step.

Most of a file's functions only compute: run for their own sake, where nothing is recorded, they set no attribute, make no
object and enter no loop of steps. Half of the expressions the interpreter would look at are in these. What is told here is
told from names: a function that may reach one with a trace has one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from xlaport.analysis.facts import FUNCTIONS, LOOPS, ancestors
from xlaport.analysis.flow.value import Sort, Value

if TYPE_CHECKING:
    from xlaport.analysis.flow.interpret import Interpreter

GROWING = frozenset({"append", "add", "insert", "appendleft", "extend"})
"""Methods that bind what they are called on anew: `self.losses.append(loss)`."""

HOOKS = frozenset({"register_forward_hook", "register_hook", "register_full_backward_hook", "register_backward_hook", "register_post_accumulate_grad_hook"})
"""Methods whose argument runs in a step."""

NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")
"""What keeps its keywords as attributes."""

IMPLICIT = ("forward", "__call__", "__str__", "__repr__")
"""Methods of an object that run without being named."""

BARE = "self alone"
"""Stands, among the words of a function, for an object that is handed on as a whole."""

CODE = (*FUNCTIONS, ast.Lambda)
Code = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Traces:
    """`is_left_by(function)` for the functions of the file that an interpreter looks at, as its attributes are now."""

    def __init__(self, run: Interpreter):
        self._run = run
        self._functions: dict[str, list[Code]] = {}
        self._words: dict[Code, set[str]] = {}
        self._direct: set[Code] = set()
        self._known: dict[Code, bool] = {}
        self._known_at = -1
        self._read()

    def is_left_by(self, function: Code) -> bool:
        if self._known_at != self._run.attributes_set:
            self._known, self._known_at = {}, self._run.attributes_set
        if function not in self._known:
            self._known[function] = self._reaches_trace(function)
        return self._known[function]

    def _reaches_trace(self, function: Code) -> bool:
        seen, waiting = {function}, [function]
        while waiting:
            current = waiting.pop()
            if current in self._direct or self._known.get(current):
                return True
            for reached in self._reached_from(current):
                if reached is None:
                    return True
                if reached not in seen:
                    seen.add(reached)
                    waiting.append(reached)
        self._known.update(dict.fromkeys(seen, False))
        return False

    # -- what a function may run

    def _reached_from(self, function: Code) -> Iterator[Code | None]:
        """Functions that one may run, by all the names in it; None for a class that keeps what it is given."""
        run, words = self._run, self._words.get(function, frozenset())
        for word in self._functions.keys() & words:
            yield from self._functions[word]
        for word in run.classes.by_name.keys() & words:
            yield from self._by_making(run.classes.by_name[word])
        for holder in (run.attributes, run.globals):
            for word in holder.keys() & words:
                yield from self._by_calling(holder[word])
        owner = function.parent
        if isinstance(owner, ast.ClassDef) and BARE in words:
            yield from self._by_using(owner)

    def _by_calling(self, value: Value) -> Iterator[Code | None]:
        """What a value may run, or what it holds."""
        node = value.node
        if value.sort is Sort.CLASS and isinstance(node, ast.ClassDef):
            yield from self._by_making(node)
        elif isinstance(node, ast.ClassDef):
            yield from self._by_using(node)
        elif isinstance(node, CODE):
            yield node
        for inner in (value.element, value.owner, *(value.items or ())):
            if inner is not None:
                yield from self._by_calling(inner)

    def _by_making(self, owner: ast.ClassDef) -> Iterator[Code | None]:
        yield self._run.classes.method_of(owner, "__init__")
        yield from self._by_using(owner)

    def _by_using(self, owner: ast.ClassDef) -> Iterator[Code]:
        for name in IMPLICIT:
            method = self._run.classes.method_of(owner, name)
            if method is not None:
                yield method

    # -- what is in a function

    def _read(self) -> None:
        """Names and traces of every function, each read once; a function has those of the functions in it."""
        facts = self._run.facts
        for function in facts.of(*FUNCTIONS):
            self._functions.setdefault(function.name, []).append(function)
        telling = self._telling()
        for node in facts.of(ast.Name):
            if node.id in telling:
                self._say(node, node.id)
            if node.id in {"self", "cls"} and node.parent.__class__ is not ast.Attribute:
                self._say(node, BARE)
        for node in facts.of(ast.Attribute):
            if node.attr in telling:
                self._say(node, node.attr)
            if isinstance(node.ctx, ast.Store) or node.attr in HOOKS or node.attr in GROWING and isinstance(node.value, ast.Attribute):
                self._mark(node)
        for node in facts.of(ast.ClassDef, *LOOPS):
            if node.__class__ is ast.ClassDef or id(node) in self._run.steps:
                self._mark(node)
        for node in self._run.names.calls(*NAMESPACES):
            self._mark(node)
        for function in facts.of(*CODE):
            for outer in ancestors(function):
                if isinstance(outer, CODE):
                    self._words.setdefault(outer, set()).update(self._words.get(function, ()))
                    if function in self._direct:
                        self._direct.add(outer)

    def _telling(self) -> set[str]:
        """Identifiers that can stand for a function or an object of the file: a tenth of all, and only these are remembered."""
        facts, run = self._run.facts, self._run
        stored = {node.attr for node in facts.of(ast.Attribute) if isinstance(node.ctx, ast.Store)}
        given = {node.arg for node in facts.of(ast.keyword) if node.arg}
        return stored | given | self._functions.keys() | run.classes.by_name.keys() | run.globals.keys() | run.attributes.keys()

    def _say(self, node: ast.AST, word: str) -> None:
        function = code_around(node)
        if function is not None:
            self._words.setdefault(function, set()).add(word)

    def _mark(self, node: ast.AST) -> None:
        function = code_around(node)
        if function is not None:
            self._direct.add(function)


def code_around(node: ast.AST) -> Code | None:
    while (node := node.parent) is not None:
        if node.__class__ in CODE:
            return node
    return None
