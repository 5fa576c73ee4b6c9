"""`ModuleFacts`: the syntax tree of one file with the indexes one traversal of it gives."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xlaport.rewrite.ops import Span
from xlaport.source import SourceFile

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.AsyncFor | ast.While
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LEAVES = frozenset({ast.Name, ast.Constant, ast.alias})
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, eq=False)
class ModuleFacts:
    """Every node has a `parent` attribute. `nodes[kind]` lists the nodes of that class in source order.

    `in_fstring` maps `id` of a node to the f-string that holds it.
    """

    source: SourceFile
    tree: ast.Module
    nodes: dict[type, list[ast.AST]] = field(repr=False)
    in_fstring: dict[int, ast.JoinedStr] = field(repr=False)

    def take_apart(self) -> None:
        """Empty the nodes that have children, which know their parents: without cycles the tree goes as soon as nothing holds it."""
        holders = chain.from_iterable(nodes for kind, nodes in self.nodes.items() if kind not in LEAVES)
        deque(map(dict.clear, map(vars, holders)), maxlen=0)  # without a step of Python for each of a quarter of a million nodes

    def of(self, *kinds: type) -> Iterator[ast.AST]:
        return chain.from_iterable([self.nodes.get(kind, ()) for kind in kinds])

    def span(self, node: ast.AST) -> Span:
        """Bytes of a node; of the surrounding f-string (with `inner`) for a node inside one."""
        outer = self.in_fstring.get(id(node))
        if outer is not None:
            whole = self.span(outermost_fstring(outer, self))
            return Span(whole.start, whole.end, ast.unparse(node))
        return Span(
            self.source.byte_offset(node.lineno, node.col_offset),
            self.source.byte_offset(node.end_lineno, node.end_col_offset),
        )

    def text(self, node: ast.AST) -> str:
        """The source of a node, as written."""
        if id(node) in self.in_fstring:
            return ast.unparse(node)
        span = self.span(node)
        return self.source.slice(span.start, span.end)


def outermost_fstring(node: ast.JoinedStr, module: ModuleFacts) -> ast.JoinedStr:
    while (outer := module.in_fstring.get(id(node))) is not None:
        node = outer
    return node


def ancestors(node: ast.AST) -> Iterator[ast.AST]:
    """Parents of a node, nearest first, up to the module."""
    while (node := getattr(node, "parent", None)) is not None:
        yield node


def enclosing(node: ast.AST, *kinds: type) -> ast.AST | None:
    return next((parent for parent in ancestors(node) if isinstance(parent, kinds)), None)


def enclosing_function(node: ast.AST) -> FunctionNode | ast.Lambda | None:
    return enclosing(node, *FUNCTIONS, ast.Lambda)


def enclosing_scope(node: ast.AST) -> ast.AST:
    """The innermost function, lambda, class or module that holds `node`."""
    parent = node.parent
    while parent is not None:
        if parent.__class__ in SCOPES:
            return parent
        parent = parent.parent
    return node


def enclosing_loops(node: ast.AST) -> Iterator[LoopNode]:
    """Loops around a node within its own function, innermost first; the body only, not `else`."""
    child = node
    for parent in ancestors(node):
        if isinstance(parent, SCOPES):
            return
        if isinstance(parent, LOOPS) and child not in parent.orelse:
            yield parent
        child = parent


def statement_of(node: ast.AST) -> ast.stmt:
    """The statement a node belongs to (itself when it is one)."""
    while not isinstance(node, ast.stmt):
        node = node.parent
    return node


def runs_once(node: ast.expr) -> bool:
    """Whether an expression is evaluated as its statement is: not in a lambda or comprehension, nor in the head of a compound statement."""
    while not isinstance(node, ast.stmt):
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            return False
        node = node.parent
    return not hasattr(node, "body")


def block_of(statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that holds a statement."""
    parent = statement.parent
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    for case in getattr(parent, "cases", ()):
        if statement in case.body:
            return case.body
    return [statement]


def following(statement: ast.stmt) -> list[ast.stmt]:
    """What stands behind a statement in its block."""
    block = block_of(statement)
    return block[block.index(statement) + 1 :]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function or class body, nested functions and classes left out."""
    return nodes_run([scope.body] if isinstance(scope, ast.Lambda) else getattr(scope, "body", []))


def nodes_run(roots: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of statements or expressions, in the order of the text; of a function or class that they define only the node itself."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields that hold statements, or what holds statements, in the order of the text."""


def own_statements(function: ast.AST) -> Iterator[ast.AST]:
    """Statements of a function body, with handlers and cases; expressions and what is in nested definitions are left out."""
    stack = list(reversed(function.body)) if isinstance(function, FUNCTIONS) else []
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(reversed([inner for name in BLOCKS for inner in getattr(node, name, ())]))


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call gives for a parameter, by position (None: by name only) or by name."""
    if position is not None and len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names an import statement brings in; none for a relative one."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [] if node.level else [f"{node.module}.{alias.name}" for alias in node.names]


def is_called(node: ast.expr) -> bool:
    return isinstance(node.parent, ast.Call) and node.parent.func is node


def is_read(node: ast.expr) -> bool:
    """A name or attribute taken as a value: not called, not assigned to, not the start of a longer one."""
    return (
        isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        and not is_called(node) and not isinstance(node.parent, ast.Attribute)
    )


def is_docstring(node: ast.Constant) -> bool:
    """A string that is a statement of its own, which nothing reads as a value."""
    return isinstance(getattr(node, "parent", None), ast.Expr)


def is_dead(node: ast.AST) -> bool:
    """In a branch that a constant condition never takes."""
    return getattr(node, "is_dead", False)
