"""Templates: Python source with `{name}` placeholders, turned into libcst nodes with the holes filled."""

from __future__ import annotations

import re

import libcst as cst

PLACEHOLDER = re.compile(r"\{(\w+)\}")
MARK = "__xlaport_hole_{}__"
ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.FormattedString, cst.Integer, cst.Float,
    cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp, cst.Ellipsis,
)

BORROWERS = (cst.GeneratorExp, cst.NamedExpr, cst.Yield)
"""Where they stood, the parentheses of a call or a condition were theirs."""


class _Fill(cst.CSTTransformer):
    """Replaces marked names by nodes, with parentheses where precedence needs them."""

    def __init__(self, holes: dict[str, cst.CSTNode | list[cst.Arg]]):
        super().__init__()
        self.holes = {MARK.format(name): node for name, node in holes.items()}

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        node = self.holes.get(original_node.value)
        if node is None or isinstance(node, list):
            return updated_node
        return parenthesised(node) if isinstance(node, BORROWERS) and not node.lpar else node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg):
        value = original_node.value
        if isinstance(value, cst.Name) and isinstance(self.holes.get(value.value), list):
            return cst.FlattenSentinel(self.holes[value.value])
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        value = updated_node.value
        is_number = isinstance(value, cst.Integer) and not value.lpar  # `1.real` is not Python
        return updated_node.with_changes(value=parenthesised(value) if is_number else as_atom(value))

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.Subscript:
        return updated_node.with_changes(value=as_atom(updated_node.value))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        return updated_node.with_changes(func=as_atom(updated_node.func))

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.Await:
        return updated_node.with_changes(expression=as_atom(updated_node.expression))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.IfExp:
        loose = (cst.IfExp, cst.Lambda, cst.NamedExpr)
        body, test = (parenthesised(n) if isinstance(n, loose) and not n.lpar else n for n in (updated_node.body, updated_node.test))
        return updated_node.with_changes(body=body, test=test)

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation):
        guard = as_operand if isinstance(updated_node.operator, cst.Not) else as_atom
        return updated_node.with_changes(expression=guard(updated_node.expression))

    def leave_BooleanOperation(self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation):
        return updated_node.with_changes(left=as_operand(updated_node.left), right=as_operand(updated_node.right))

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison):
        return updated_node.with_changes(left=as_compared(updated_node.left))

    def leave_ComparisonTarget(self, original_node: cst.ComparisonTarget, updated_node: cst.ComparisonTarget):
        return updated_node.with_changes(comparator=as_compared(updated_node.comparator))

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation):
        return updated_node.with_changes(left=as_atom(updated_node.left), right=as_atom(updated_node.right))


def as_atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """The node, in parentheses unless it binds at least as tightly as an attribute access."""
    if isinstance(node, ATOMS) or node.lpar:
        return node
    return parenthesised(node)


def as_operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """The node, in parentheses where it would not stay whole inside `not`, `and`, `==`."""
    loose = (cst.IfExp, cst.Lambda, cst.NamedExpr, cst.Yield, cst.BooleanOperation, cst.Tuple)
    return parenthesised(node) if isinstance(node, loose) and not node.lpar else node


def as_compared(node: cst.BaseExpression) -> cst.BaseExpression:
    """`a == b` beside another comparison would become a chain of the two."""
    is_not = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return parenthesised(node) if (isinstance(node, cst.Comparison) or is_not) and not node.lpar else as_operand(node)


def parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def expression(template: str, holes: dict, config: cst.PartialParserConfig) -> cst.BaseExpression:
    """Raises `libcst.ParserSyntaxError` for a template that is not an expression."""
    node = cst.parse_expression(mark(template, holes), config)
    return node.visit(_Fill(holes))


def statements(template: str, holes: dict, config: cst.PartialParserConfig) -> list[cst.BaseStatement]:
    """Statements of a template; comments above them are kept as their leading lines."""
    module = cst.parse_module(mark(template, holes).rstrip("\n") + "\n", config)
    filled = module.visit(_Fill(holes))
    body = list(filled.body)
    if filled.header and body:
        body[0] = body[0].with_changes(leading_lines=[*filled.header, *body[0].leading_lines])
    return body


def mark(template: str, holes: dict) -> str:
    return PLACEHOLDER.sub(lambda match: MARK.format(match[1]) if match[1] in holes else match[0], template)
