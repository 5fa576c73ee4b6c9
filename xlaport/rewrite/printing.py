"""libcst nodes as text, with or without the places of what is printed.

libcst's own printer enters a generator for each node even where nobody asks for places, and makes an object of each place:
together a quarter of a rewrite.
"""

from __future__ import annotations

from contextlib import nullcontext

import libcst as cst
from libcst._nodes.internal import CodegenState

NOWHERE = nullcontext()


class Plain(CodegenState):
    """Prints, and notes nothing."""

    def record_syntactic_position(self, node, *, start_node=None, end_node=None):
        return NOWHERE


class Placed(CodegenState):
    """Prints from a byte of the file on, and notes in `places` the first byte of each node and the one after its last.

    As `libcst.metadata.ByteSpanPositionProvider` counts: without the white space a node owns.
    """

    def __init__(self, module: cst.Module, start: int):
        super().__init__(module.default_indent, module.default_newline)
        self.position = start
        self.places: dict[cst.CSTNode, tuple[int, int]] = {}
        self._starts: list[int] = []

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.position += len(value) if value.isascii() else len(value.encode("utf-8"))

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.position)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if node not in self.places:
            self.places[node] = start, self.position

    def record_syntactic_position(self, node, *, start_node=None, end_node=None):
        return Place(self, node, start_node, end_node)


class Place:
    """What is printed inside is the node's, or what lies between two of its parts."""

    __slots__ = ("_state", "_node", "_first", "_last", "_start")

    def __init__(self, state: Placed, node: cst.CSTNode, first: cst.CSTNode | None, last: cst.CSTNode | None):
        self._state, self._node, self._first, self._last = state, node, first, last

    def __enter__(self) -> None:
        self._start = self._state.position

    def __exit__(self, *error) -> None:
        places = self._state.places
        start = self._start if self._first is None else places[self._first][0]
        end = self._state.position if self._last is None else places[self._last][1]
        places[self._node] = start, end


def printed(node: cst.CSTNode, module: cst.Module = cst.Module([])) -> str:
    """The code of a node, with indents and line ends as in the module."""
    state = Plain(module.default_indent, module.default_newline)
    node._codegen(state)
    return "".join(state.tokens)


def places_in(node: cst.CSTNode, module: cst.Module, start: int) -> dict[cst.CSTNode, tuple[int, int]]:
    """First byte and end of each node of a statement that starts at this byte."""
    state = Placed(module, start)
    node._codegen(state)
    return state.places
