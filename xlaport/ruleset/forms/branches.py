"""`if` and conditional expressions on device tensors as `torch.where`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xlaport.analysis import facts as syntax
from xlaport.analysis.flow.events import Event
from xlaport.findings import Fix
from xlaport.rewrite.ops import Op
from xlaport.ruleset.api import Context
from xlaport.ruleset.forms.common import code, is_number_or_tensor, is_pure, is_shown, names_in, none_value, unsafe

MOST_TARGETS = 3
NEEDS_RANGE = frozenset({"index_select", "gather", "take", "log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "acos", "asin", "atanh", "acosh", "pow"})
COMPARISONS = {ast.Gt: ">", ast.Lt: "<", ast.GtE: ">=", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@"}


def chosen_on_device(context: Context, event: Event) -> Fix | None:
    """The `if` or conditional expression whose test an event lies in, with both ways computed and one chosen."""
    owner = owner_of(event.node)
    if owner is None or context.facts.in_fstring.get(id(event.node)) is not None:
        return None
    test = condition(context, event, owner.test)
    if test is None:
        return None
    ops = conditional(context, event, owner, test) if isinstance(owner, ast.IfExp) else statement(context, event, owner, test)
    return unsafe(ops) if ops else None


def owner_of(node: ast.AST) -> ast.If | ast.IfExp | None:
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, (ast.If, ast.IfExp)):
            return parent if parent.test is child else None
        if isinstance(parent, (ast.stmt, ast.Lambda, ast.comprehension)):
            return None
        child = parent
    return None


# -- the condition


@dataclass(frozen=True)
class Test:
    """A template for a bool tensor of no dimensions, and its holes."""

    template: str
    holes: dict[str, ast.expr]

    @property
    def names(self) -> set[str]:
        return {name for part in self.holes.values() for name in names_in(part)} - {"torch"}

    @property
    def asks_zero(self) -> bool:
        """Is no other number than zero compared with?"""
        parts = [part for whole in self.holes.values() for part in ast.walk(whole)]
        return not any(isinstance(part, ast.Constant) and isinstance(part.value, (int, float)) and part.value for part in parts)


def condition(context: Context, event: Event, test: ast.expr) -> Test | None:
    holes: dict[str, ast.expr] = {}
    template = condition_template(context, event, test, holes)
    if template is None or not all(is_pure(context, event, hole) for hole in holes.values()):
        return None
    return Test(template, holes)


def condition_template(context: Context, event: Event, node: ast.expr, holes: dict[str, ast.expr]) -> str | None:
    """`None` where a part is no tensor: that part decides on the host, and stays an `if`."""
    if isinstance(node, ast.BoolOp):
        parts = [condition_template(context, event, part, holes) for part in node.values]
        if len(parts) != 2 or None in parts:
            return None
        return f"torch.logical_{'and' if isinstance(node.op, ast.And) else 'or'}({parts[0]}, {parts[1]})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = condition_template(context, event, node.operand, holes)
        return f"torch.logical_not({inner})" if inner else None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return membership(context, event, node, holes)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        sides = [asked_on_host(context, event, side) or side for side in (node.left, node.comparators[0])]
        if sides != [node.left, node.comparators[0]]:
            return f"{hole(holes, sides[0])} {COMPARISONS[type(node.ops[0])]} {hole(holes, sides[1])}"
    if isinstance(node, ast.Call):
        asked = asked_on_host(context, event, node)
        if asked is not None:
            return condition_template(context, event, asked, holes)
        if context.refers(node.func, "torch.equal") and len(node.args) == 2:
            return f"({hole(holes, node.args[0])} == {hole(holes, node.args[1])}).all()"
    value = event.value_of(node)
    if not value.on_device or value.rank not in (None, 0) or not is_shown(context, event, node):
        return None
    return hole(holes, node) if value.dtype == "bool" else f"{hole(holes, node)} != 0"


def asked_on_host(context: Context, event: Event, node: ast.expr) -> ast.expr | None:
    """`torch.is_nonzero(x)`, `bool(x)`, `x.item()`: the tensor `x` that is asked."""
    if not isinstance(node, ast.Call):
        return None
    if len(node.args) == 1 and (context.refers(node.func, "torch.is_nonzero") or isinstance(node.func, ast.Name) and node.func.id in {"bool", "float"}):
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and event.value_of(node.func.value).is_tensor:
        return node.func.value
    return None


def membership(context: Context, event: Event, node: ast.Compare, holes: dict[str, ast.expr]) -> str | None:
    """`t in [1, 2]` of a tensor of no dimensions; `3 in ids`."""
    if len(node.ops) != 1:
        return None
    held, container = node.left, node.comparators[0]
    negated = "torch.logical_not({})" if isinstance(node.ops[0], ast.NotIn) else "{}"
    asked = container if event.value_of(container).on_device else held
    if not is_shown(context, event, asked):
        return None
    if asked is container:
        return negated.format(f"({hole(holes, container)} == {hole(holes, held)}).any()")
    if not isinstance(container, (ast.List, ast.Tuple)) or not 1 <= len(container.elts) <= 4 or not event.value_of(held).on_device:
        return None
    tests = [f"({hole(holes, held)} == {hole(holes, element)})" for element in container.elts]
    return negated.format(" | ".join(tests))


def hole(holes: dict[str, ast.expr], node: ast.expr) -> str:
    name = next((name for name, other in holes.items() if other is node), f"test{len(holes)}")
    holes[name] = node
    return "{" + name + "}"


# -- what is chosen


def conditional(context: Context, event: Event, node: ast.IfExp, test: Test) -> list[Op] | None:
    if not all(is_choice(context, event, part, test) for part in (node.body, node.orelse)):
        return None
    return context.replace(node, f"torch.where({test.template}, {{yes}}, {{no}})", **test.holes, yes=node.body, no=node.orelse)


def is_choice(context: Context, event: Event, node: ast.expr, test: Test) -> bool:
    if none_value(node) or not is_pure(context, event, node) or not is_number_or_tensor(event, node):
        return False
    return not any(needs_guard(part, test) for part in ast.walk(node))


def needs_guard(node: ast.AST, test: Test) -> bool:
    """`x[k]` where `k` was tested, `x / n` where `n > 0` was: out of range, or `nan` in the gradient, when it is computed all the same."""
    if isinstance(node, ast.Subscript):
        return bool(names_in(node.slice) & test.names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)):
        return test.asks_zero and bool(names_in(node.right) & test.names)
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return name in NEEDS_RANGE and bool(names_in(node) & test.names)


def statement(context: Context, event: Event, node: ast.If, test: Test) -> list[Op] | None:
    if is_elif(context, node):
        return None
    if isinstance(node.body[0], ast.Return):
        return returned(context, event, node, test)
    return assigned(context, event, node, test)


def is_elif(context: Context, node: ast.If) -> bool:
    return context.text(node).startswith("elif")


def returned(context: Context, event: Event, node: ast.If, test: Test) -> list[Op] | None:
    """Both ways return a value: in the `else`, or in the statement that follows."""
    other = node.orelse or syntax.following(node)[:1]
    if len(node.body) != 1 or len(other) != 1 or not isinstance(other[0], ast.Return):
        return None
    yes, no = node.body[0].value, other[0].value
    if yes is None or no is None or not all(is_choice(context, event, part, test) for part in (yes, no)):
        return None
    template = f"return torch.where({test.template}, {{yes}}, {{no}})"
    ops = context.replace_statement(node, template, **test.holes, yes=yes, no=no)
    return ops if node.orelse else [*ops, *context.remove(other[0])]


@dataclass(frozen=True)
class Assignment:
    target: ast.expr
    template: str
    """The new value, of the holes `old` and `new`."""

    value: ast.expr


def assigned(context: Context, event: Event, node: ast.If, test: Test) -> list[Op] | None:
    """Both ways assign: a target that one of them leaves keeps its value."""
    ways = [assignments(context, event, block, test) for block in (node.body, node.orelse)]
    if None in ways:
        return None
    targets = list(dict.fromkeys([*ways[0], *ways[1]]))
    if not 1 <= len(targets) <= MOST_TARGETS or not are_independent(targets, ways, test):
        return None
    if any(not (target in ways[0] and target in ways[1]) and not is_bound_before(context, node, target) for target in targets):
        return None
    lines, holes = [], dict(test.holes)
    for index, target in enumerate(targets):
        yes, no = (side(way.get(target), f"{which}{index}", target, holes) for way, which in zip(ways, ("yes", "no")))
        lines.append(f"{target} = torch.where({test.template}, {yes}, {no})")
    return context.replace_statement(node, "\n".join(lines), **holes)


def side(assignment: Assignment | None, name: str, target: str, holes: dict[str, ast.expr]) -> str:
    if assignment is None:
        return target
    holes[name] = assignment.value
    return assignment.template.replace("{new}", "{" + name + "}")


def assignments(context: Context, event: Event, block: list[ast.stmt], test: Test) -> dict[str, Assignment] | None:
    """target -> what it becomes; None when something else happens, or a target is set twice."""
    found: dict[str, Assignment] = {}
    for statement in block:
        made = assignment_of(statement)
        if made is None or code(made.target) in found or not is_choice(context, event, made.value, test):
            return None
        found[code(made.target)] = made
    return found


def assignment_of(statement: ast.stmt) -> Assignment | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and is_place(statement.targets[0]):
        return Assignment(statement.targets[0], "{new}", statement.value)
    if isinstance(statement, ast.AugAssign) and is_place(statement.target) and type(statement.op) in SYMBOLS:
        return Assignment(statement.target, f"{code(statement.target)} {SYMBOLS[type(statement.op)]} {{new}}", statement.value)
    return None


def is_place(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def are_independent(targets: list[str], ways: list[dict[str, Assignment]], test: Test) -> bool:
    """With several targets, neither the test nor a value may ask for one that was set before it."""
    if len(targets) == 1:
        return True
    if any(set(targets) & names_in(part) for part in test.holes.values()):
        return False
    return not any((set(targets) - {target}) & names_in(made.value) for way in ways for target, made in way.items())


def is_bound_before(context: Context, node: ast.If, target: str) -> bool:
    """Is there a value to keep? Attributes are taken to be there."""
    if "." in target:
        return True
    scope = syntax.enclosing_scope(node)
    return any(binding.node.lineno < node.lineno for binding in context.names.bindings(target, node) if hasattr(binding.node, "lineno")) or (
        isinstance(scope, syntax.FUNCTIONS) and target in {a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)}
    )
