"""The bridge from `ast` spans to libcst nodes: exact byte spans, f-string insides by their code."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import libcst as cst

from xlaport.rewrite.ops import Span
from xlaport.rewrite.printing import places_in, printed

StatementLike = (cst.BaseSmallStatement, cst.BaseCompoundStatement)


@dataclass(eq=False)
class Located:
    """libcst nodes of the spans asked for, and for small statements the line that holds them."""

    module: cst.Module
    expressions: dict[Span, cst.BaseExpression] = field(default_factory=dict)
    statements: dict[Span, cst.CSTNode] = field(default_factory=dict)
    lines: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    parents: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    around: set[int] = field(default_factory=set)
    """`id` of every node on the path from the module to a located node."""

    pieces: dict[int, str] = field(default_factory=dict)
    """`id` of each statement of the module itself, and of its header and footer -> its code."""

    @property
    def code(self) -> str:
        return print_module(self.module, self.pieces)


def print_module(module: cst.Module, pieces: Mapping[int, str]) -> str:
    """The code of a module. What `pieces` has (by `id` of the node) is not printed again: printing is half of a rewrite."""
    nodes = (*module.header, *module.body, *module.footer)
    code = "".join(pieces[id(node)] if id(node) in pieces else printed(node, module) for node in nodes)
    if module.has_trailing_newline:
        return code or module.default_newline
    return code.removesuffix("\n").removesuffix("\r") if code.endswith("\r\n") else code[:-1]


def locate(module: cst.Module, text: str, wanted: Iterable[Span]) -> Located:
    """Find the nodes of all wanted spans in one walk. What is not found is absent from the result.

    Byte spans of nodes come from printing the statements that hold a wanted one. `MetadataWrapper` would print and
    visit the whole tree for them.
    """
    outer = {Span(span.start, span.end): Span(span.start, span.end) for span in wanted}
    outer.update(inside_parentheses(text.encode("utf-8"), list(outer)))
    inner = [span for span in wanted if span.inner is not None]
    located = Located(module)
    starts = sorted(span.start for span in outer)
    at = 0
    for node in (*module.header, *module.body, *module.footer):
        piece = located.pieces[id(node)] = printed(node, module)
        end = at + len(piece.encode("utf-8"))
        if holds_any(at, end, starts):
            walk(node, places_in(node, module, at), outer, starts, located, [module])
        at = end
    for span in inner:
        whole = located.expressions.get(Span(span.start, span.end))
        found = inside(whole, span.inner) if whole is not None else None
        if found is not None:
            node, path = found
            located.expressions[span] = node
            located.parents[node] = path[-2]
            located.around.update(map(id, path))
    return located


def walk(node, places, wanted, starts, located: Located, path: list[cst.CSTNode]) -> None:
    place = places.get(node)
    if place is not None:
        span = Span(*place)
        if span in wanted:
            record(node, wanted[span], path, located)
    path.append(node)
    for child in node.children:
        at = None if has_more_than_its_span(child) else places.get(child)
        if at is None or holds_any(*at, starts):
            walk(child, places, wanted, starts, located, path)
    path.pop()


def has_more_than_its_span(node: cst.CSTNode) -> bool:
    """libcst leaves the default out of a parameter's span, decorators out of a definition's and of a block that starts with one."""
    if isinstance(node, cst.IndentedBlock) and node.body:
        node = node.body[0]
    return isinstance(node, cst.Param) or isinstance(node, (cst.FunctionDef, cst.ClassDef)) and bool(node.decorators)


def inside_parentheses(code: bytes, spans: list[Span]) -> dict[Span, Span]:
    """For `(a, b)`: the span of `a, b`, which is what libcst gives a tuple, and the span asked for."""
    table = {}
    for span in spans:
        text = code[span.start : span.end]
        if text.startswith(b"(") and text.endswith(b")"):
            inner = text[1:-1]
            start = span.start + 1 + len(inner) - len(inner.lstrip())
            table[Span(start, start + len(inner.strip()))] = span
    return table


def holds_any(start: int, end: int, starts: list[int]) -> bool:
    index = bisect_left(starts, start)
    return index < len(starts) and starts[index] <= end


def record(node: cst.CSTNode, span: Span, path: list[cst.CSTNode], located: Located) -> None:
    if isinstance(node, cst.BaseExpression):
        located.expressions.setdefault(span, node)
        for child, parent in zip(reversed([*path[1:], node]), reversed(path)):
            located.parents.setdefault(child, parent)
    elif isinstance(node, StatementLike):
        located.statements.setdefault(span, node)
        holder = next((p for p in reversed(path) if isinstance(p, (cst.SimpleStatementLine, cst.SimpleStatementSuite))), None)
        if isinstance(node, cst.BaseSmallStatement) and holder is not None:
            located.lines[node] = holder
    else:
        return
    located.around.add(id(node))
    located.around.update(map(id, path))


def inside(whole: cst.BaseExpression, code: str) -> tuple[cst.BaseExpression, list[cst.CSTNode]] | None:
    """The first expression in an f-string whose code is `code`, and the nodes around it."""

    def search(node: cst.CSTNode, path: list[cst.CSTNode]):
        if isinstance(node, cst.BaseExpression) and node is not whole and normal(printed(node)) == code:
            return node, [*path, node]
        for child in node.children:
            found = search(child, [*path, node])
            if found:
                return found
        return None

    return search(whole, [])


def normal(code: str) -> str:
    try:
        return ast.unparse(ast.parse(code.strip(), mode="eval"))
    except SyntaxError:
        return code
