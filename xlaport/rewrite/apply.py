"""Applies edit operations to the text of one file with libcst. Nothing else imports libcst.

Every edit is attached to the libcst node at its byte span; one bottom-up pass applies them, so an
edit inside a node that is itself replaced or unwrapped survives. What cannot be located is refused
as a whole fix, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from xlaport.analysis.build import Unparsable
from xlaport.analysis.build import parse as parse_python
from xlaport.analysis.folding import only_looks
from xlaport.errors import NotRewritable
from xlaport.rewrite import arguments, imports, templates
from xlaport.rewrite.ops import (
    AddPrelude, AddWithItem, EditCall, EnsureImport, InsertStatement, Op, RemoveDecorator, RemoveImportedName, RemoveStatement,
    RemoveWithItem, ReplaceExpr, ReplaceStatement, Span, UnwrapBlock, WrapExpr,
)
from xlaport.rewrite.printing import printed
from xlaport.rewrite.spans import Located, locate, print_module

STATEMENT_OPS = (RemoveStatement, ReplaceStatement, InsertStatement, UnwrapBlock, RemoveWithItem, AddWithItem, RemoveImportedName)


@dataclass(frozen=True)
class Applied:
    """The new text, and the indexes of the fixes that could not be applied."""

    text: str
    refused: frozenset[int]


def apply(text: str, fixes: list[tuple[Op, ...]], known_imports: dict[str, str]) -> Applied:
    """Apply fixes to a text. Each fix applies whole or is refused.

    `known_imports` maps an alias of the target profile to its import statement.
    Raises `NotRewritable`, also for a result that would not parse (a bug of a rule).
    """
    return operated(*opened(text, fixes), text, fixes, known_imports)


def apply_each(text: str, fixes: list[tuple[Op, ...]], known_imports: dict[str, str]) -> Iterator[str | None]:
    """The text after each fix alone, None where it cannot be applied. Raises `NotRewritable` for the file as a whole."""
    module, located = opened(text, fixes)
    for fix in fixes:
        try:
            result = operated(module, located, text, [fix], known_imports)
        except NotRewritable:
            yield None
            continue
        yield None if result.refused else result.text


def opened(text: str, fixes: list[tuple[Op, ...]]) -> tuple[cst.Module, Located]:
    module = parse(text)
    located = locate(module, text, {span for fix in fixes for op in fix for span in spans_of(op)})
    if located.code != text:
        raise NotRewritable("libcst does not reproduce it byte for byte (form feed or bare carriage return)")
    return module, located


def operated(module: cst.Module, located: Located, text: str, fixes: list[tuple[Op, ...]], known_imports: dict[str, str]) -> Applied:
    refused = frozenset(index for index, fix in enumerate(fixes) if not all(is_located(op, located) for op in fix))
    accepted, clashing = without_clashes([(index, fix) for index, fix in enumerate(fixes) if index not in refused], located)
    plan = plan_edits(accepted, located)
    result = module.visit(_Surgeon(plan, located, module.config_for_parsing))
    wanted = [op.alias for fix in without_swallowed(accepted) for op in fix if isinstance(op, EnsureImport)]
    preludes = [op.code for fix in accepted for op in fix if isinstance(op, AddPrelude)]
    new_text = print_module(imports.add(result, text, wanted, preludes, known_imports), located.pieces)
    check_parses(new_text)
    return Applied(new_text, refused | clashing)


def parse(text: str) -> cst.Module:
    try:
        return cst.parse_module(text)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise NotRewritable(f"libcst cannot parse it: {str(error).splitlines()[0]}") from None


def spans_of(op: Op) -> list[Span]:
    found = [getattr(op, name) for name in ("span", "anchor") if hasattr(op, name)]
    return found + [span for _, span in getattr(op, "holes", ())]


def is_located(op: Op, located: Located) -> bool:
    if isinstance(op, (AddPrelude, EnsureImport)):
        return True
    if isinstance(op, InsertStatement):
        main = op.anchor in located.statements
    elif isinstance(op, STATEMENT_OPS):
        main = op.span in located.statements
    else:
        main = op.span in located.expressions
    return main and all(span in located.expressions for _, span in getattr(op, "holes", ()))


def without_clashes(fixes: list[tuple[int, tuple[Op, ...]]], located: Located):
    """Two fixes may not replace the same node or edit the same call argument: the first one wins."""
    taken: set = set()
    accepted, clashing = [], set()
    for index, fix in fixes:
        keys = {key for op in fix for key in claims(op, located)}
        if keys & taken:
            clashing.add(index)
            continue
        taken |= keys
        accepted.append(fix)
    return accepted, frozenset(clashing)


def without_swallowed(fixes: list[tuple[Op, ...]]) -> list[tuple[Op, ...]]:
    """Fixes of which something is left to see: not those of code that another fix takes out or replaces whole."""
    takers = [op for fix in fixes for op in fix if isinstance(op, (ReplaceExpr, ReplaceStatement, RemoveStatement))]
    return [
        fix for fix in fixes
        if not (places := [op.span for op in fix if hasattr(op, "span")]) or not all(any(swallows(op, span) for op in takers) for span in places)
    ]


def swallows(op: Op, span: Span) -> bool:
    """Is a span within what an operation drops: inside its own, and in none of its holes?"""
    return encloses(op.span, span) and not any(encloses(hole, span) or hole == span for _, hole in getattr(op, "holes", ()))


def encloses(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end and (outer.start, outer.end) != (inner.start, inner.end)


def claims(op: Op, located: Located) -> list:
    """What an operation changes exclusively."""
    if isinstance(op, (ReplaceExpr, WrapExpr)):
        return [("expr", op.span)]
    if isinstance(op, EditCall):
        names = [*op.remove_keywords, *op.remove_positions, *(name for name, _ in op.set_keywords)]
        return [("arg", op.span, name) for name in names]
    if isinstance(op, (RemoveStatement, ReplaceStatement, UnwrapBlock)):
        return [("stmt", op.span)]
    if isinstance(op, RemoveWithItem):
        return [("item", op.span, op.index)]
    if isinstance(op, RemoveDecorator):
        return [("decorator", op.span)]
    if isinstance(op, RemoveImportedName):
        return [("import", op.span, op.bound_name)]
    return []


@dataclass(eq=False)
class _Plan:
    """Operations by the libcst node they change."""

    expressions: dict[cst.CSTNode, list[Op]] = field(default_factory=dict)
    statements: dict[cst.CSTNode, list[Op]] = field(default_factory=dict)
    holes: set[int] = field(default_factory=set)
    decorators: set[int] = field(default_factory=set)


def plan_edits(fixes: list[tuple[Op, ...]], located: Located) -> _Plan:
    plan = _Plan()
    for op in (op for fix in fixes for op in fix):
        for _, span in getattr(op, "holes", ()):
            plan.holes.add(id(located.expressions[span]))
        if isinstance(op, RemoveDecorator):
            plan.decorators.add(id(located.expressions[op.span]))
        elif isinstance(op, (ReplaceExpr, WrapExpr, EditCall)):
            plan.expressions.setdefault(located.expressions[op.span], []).append(op)
        elif isinstance(op, InsertStatement):
            inserted = plan.statements.setdefault(located.statements[op.anchor], [])
            if op not in inserted:  # two rules may ask for one sync
                inserted.append(op)
        elif isinstance(op, STATEMENT_OPS):
            plan.statements.setdefault(located.statements[op.span], []).append(op)
    for ops in plan.expressions.values():
        ops.sort(key=lambda op: isinstance(op, (ReplaceExpr, WrapExpr)))  # arguments first, then the whole
    return plan


class _Surgeon(cst.CSTTransformer):
    """Bottom-up: expressions are edited as they are left, statements when their block is left."""

    def __init__(self, plan: _Plan, located: Located, config: cst.PartialParserConfig):
        super().__init__()
        self.plan = plan
        self.located = located
        self.config = config
        self.done: dict[int, cst.CSTNode] = {}
        self.emptied: set[int] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        return id(node) in self.located.around

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode):
        if id(original) not in self.located.around:
            return updated
        for op in self.plan.expressions.get(original, ()):
            updated = self.edit_expression(op, original, updated)
        if isinstance(original, (cst.FunctionDef, cst.ClassDef)) and self.plan.decorators:
            updated = self.without_decorators(original, updated)
        if isinstance(original, cst.IfExp) and isinstance(updated, cst.IfExp):
            updated = self.without_choice(original, updated)
        if isinstance(original, cst.If):
            updated = self.unwrap_else(original, updated)
        if isinstance(original, (cst.Module, cst.IndentedBlock)):
            updated = self.rebuild(original, updated)
        if isinstance(original, cst.SimpleStatementSuite):
            updated = self.rebuild_suite(original, updated)
        if id(original) in self.plan.holes:
            self.done[id(original)] = updated
        return updated

    # -- expressions

    def edit_expression(self, op: Op, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        if isinstance(op, EditCall):
            return arguments.edited(updated, op, self.config)
        if isinstance(op, WrapExpr):
            return templates.expression(op.template, {"call": updated}, self.config)
        node = templates.expression(op.template, self.filled(op), self.config)
        node = with_dot_of(node, updated)
        if original.lpar and not node.lpar and not self.are_needless(original, node):
            return node.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return self.protected(node, original)

    def without_choice(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        """`"xla" if hasattr(torch, "accelerator") else "xla"`: edits that make both ways one leave nothing to choose."""
        if not updated.body.deep_equals(updated.orelse) or may_do_something(updated.test):
            return updated
        chosen = updated.body
        if original.lpar and not chosen.lpar and not self.are_needless(original, chosen):
            return chosen.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return self.protected(chosen, original)

    def are_needless(self, original: cst.BaseExpression, node: cst.BaseExpression) -> bool:
        """Parentheses around a loose expression that became a tight one; those that hold a line break or comment stay.

        Only where no keyword may lean on them, as in `return(a or b)`.
        """
        spaces = [original.lpar[0].whitespace_after, original.rpar[-1].whitespace_before]
        return (
            isinstance(original, LOOSE)
            and isinstance(node, templates.ATOMS)
            and self.stands_free(original)
            and all(isinstance(space, cst.SimpleWhitespace) for space in spaces)
        )

    def stands_free(self, node: cst.CSTNode) -> bool:
        """Does an argument, an element or an assigned value begin with this expression?"""
        parent = self.located.parents.get(node)
        while isinstance(parent, (cst.Attribute, cst.Subscript, cst.Call)):
            parent = self.located.parents.get(parent)
        return isinstance(parent, (cst.Arg, cst.Element, cst.DictElement, cst.Assign))

    def protected(self, node: cst.BaseExpression, original: cst.CSTNode) -> cst.BaseExpression:
        """A looser expression than the one it replaces keeps its meaning by parentheses."""
        if binds_alike(node, original) or not needs_parentheses(node, self.located.parents.get(original)):
            return node
        return templates.parenthesised(node)

    def filled(self, op) -> dict:
        holes = {}
        for name, span in op.holes:
            node = self.located.expressions[span]
            node = self.done.get(id(node), node)
            holes[name] = node
        return holes

    # -- statements

    def without_decorators(self, original, updated):
        """The definition without its lost decorators; comments above them move to what follows."""
        kept, carried = [], []
        for old, new in zip(original.decorators, updated.decorators):
            if id(old.decorator) in self.plan.decorators:
                carried += comments(new.leading_lines)
                continue
            kept.append(new.with_changes(leading_lines=[*carried, *new.leading_lines]) if carried else new)
            carried = []
        if len(kept) == len(updated.decorators):
            return updated
        lines = [*carried, *updated.lines_after_decorators]
        return updated.with_changes(decorators=kept, lines_after_decorators=lines)

    def unwrap_else(self, original: cst.If, updated: cst.If) -> cst.If:
        """`elif` branches that are unwrapped become `else`, or vanish; so does an `else` whose only statements were removed."""
        nested = original.orelse
        if isinstance(nested, cst.Else) and id(nested.body) in self.emptied and not comments(updated.orelse.body.footer):
            return updated.with_changes(orelse=None)
        op = self.unwrapping(nested) if isinstance(nested, cst.If) else None
        if op is None:
            return updated
        inner = updated.orelse
        if op.branch == "orelse":
            return updated.with_changes(orelse=inner.orelse)
        return updated.with_changes(orelse=cst.Else(body=inner.body, leading_lines=inner.leading_lines))

    def unwrapping(self, node: cst.CSTNode) -> UnwrapBlock | None:
        return next((op for op in self.plan.statements.get(node, ()) if isinstance(op, UnwrapBlock)), None)

    def rebuild(self, original, updated):
        """The statements of a block after removal, insertion, replacement and unwrapping."""
        if not any(self.touches(old) for old in original.body):
            return updated
        body: list[cst.BaseStatement] = []
        carried: list[cst.EmptyLine] = []
        first_gone = False
        for old, new in zip(original.body, updated.body):
            lead, kept = self.edited(old, new)
            first_gone |= new is updated.body[0] and not kept
            if carried and kept:
                kept[0] = kept[0].with_changes(leading_lines=[*carried, *kept[0].leading_lines])
                carried = []
            carried.extend(lead)
            body.extend(kept)
        if carried:
            updated = updated.with_changes(footer=[*carried, *updated.footer])
        if body and first_gone and isinstance(original, cst.IndentedBlock):
            body[0] = without_blank_lines(body[0])
        if not body and isinstance(original, cst.IndentedBlock):
            body = [cst.parse_statement("pass\n", self.config)]
            self.emptied.add(id(original))
        return updated.with_changes(body=body)

    def touches(self, statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.SimpleStatementLine):
            return any(small in self.plan.statements for small in statement.body)
        return statement in self.plan.statements or self.is_emptied(statement)

    def is_emptied(self, statement: cst.CSTNode) -> bool:
        """An `if` whose only statements were removed, and whose test does nothing; a `try` with nothing left to fail."""
        if not isinstance(statement, (cst.If, cst.Try)) or statement.orelse is not None or id(statement.body) not in self.emptied:
            return False
        if isinstance(statement, cst.Try):
            return statement.finalbody is None
        return not may_do_something(statement.test)

    def edited(self, old, new) -> tuple[list[cst.EmptyLine], list[cst.BaseStatement]]:
        """(comment lines to carry to the next statement, what takes the place of one statement)."""
        if not self.touches(old):
            return [], [new]
        if isinstance(old, cst.SimpleStatementLine):
            return self.edited_line(old, new)
        if self.is_emptied(old):
            return commented(new.leading_lines), []
        ops = self.plan.statements[old]
        before, after = self.inserted(ops)
        kept: list[cst.BaseStatement] = [self.extended(ops, new)]
        carried: list[cst.EmptyLine] = []
        for op in ops:
            if isinstance(op, RemoveStatement):
                kept, carried = [], commented(new.leading_lines)
            elif isinstance(op, ReplaceStatement):
                kept = self.with_comments_of(new, templates.statements(op.template, self.filled(op), self.config))
            elif isinstance(op, UnwrapBlock):
                kept, carried = self.unwrapped(op, new)
        if kept and isinstance(kept[0], cst.With) and any(isinstance(op, (RemoveWithItem, AddWithItem)) for op in ops):
            kept, carried = self.with_other_items(ops, kept[0])
        return carried, self.joined(before, kept, after)

    def with_other_items(self, ops, node: cst.With):
        """A `with` that loses some of its context managers or gains others; its body alone when none is left."""
        lost = {op.index for op in ops if isinstance(op, RemoveWithItem)}
        items = [item for index, item in enumerate(node.items) if index not in lost]
        for op in ops:
            if isinstance(op, AddWithItem):
                if items:
                    items[-1] = items[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
                items.append(cst.WithItem(templates.expression(op.template, {}, self.config)))
        if not items:
            return self.unwrapped(UnwrapBlock(ops[0].span), node)
        if items[-1] is not node.items[-1]:
            items[-1] = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return [node.with_changes(items=items)], []

    def edited_line(self, old: cst.SimpleStatementLine, new: cst.SimpleStatementLine):
        if len(old.body) > 1:
            return self.edited_smalls(old, new)
        ops = self.plan.statements[old.body[0]]
        before, after = self.inserted(ops)
        kept: list[cst.BaseStatement] = self.remains(ops, new.body[0])
        if kept == [new.body[0]]:
            kept = [new]
        elif kept:
            kept = self.with_lead(as_lines(kept), new.leading_lines)
            if isinstance(kept[-1], cst.SimpleStatementLine):
                kept[-1] = kept[-1].with_changes(trailing_whitespace=new.trailing_whitespace)
        carried = [] if kept else commented(new.leading_lines)
        return carried, self.joined(before, kept, after)

    def edited_smalls(self, old: cst.SimpleStatementLine, new: cst.SimpleStatementLine):
        """`a; b; c` with its edits, on one line still unless a compound statement came in."""
        body = self.sequence(old, new)
        if not body:
            return commented(new.leading_lines), []
        if all(isinstance(node, cst.BaseSmallStatement) for node in body):
            return [], [new.with_changes(body=with_semicolons(body, old.body[-1].semicolon))]
        lines = self.with_lead(as_lines(body), new.leading_lines)
        if isinstance(lines[-1], cst.SimpleStatementLine):
            lines[-1] = lines[-1].with_changes(trailing_whitespace=new.trailing_whitespace)
        return [], lines

    def sequence(self, old, new) -> list[cst.BaseSmallStatement | cst.BaseCompoundStatement]:
        """The statements of one line in their order after removal, insertion and replacement."""
        body = []
        for was, now in zip(old.body, new.body):
            ops = self.plan.statements.get(was, ())
            before, after = self.inserted(ops)
            body += smalls([*before, *self.remains(ops, now), *after])
        return body

    def remains(self, ops, node: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement | cst.BaseStatement]:
        """What takes the place of one small statement: itself, nothing, or lines."""
        kept = [node]
        for op in ops:
            if isinstance(op, RemoveStatement):
                kept = []
            elif isinstance(op, RemoveImportedName) and kept:
                kept = [smaller for smaller in (without_name(kept[0], op.bound_name),) if smaller is not None]
            elif isinstance(op, ReplaceStatement):
                kept = templates.statements(op.template, self.filled(op), self.config)
        return kept

    def joined(self, before, kept, after):
        """Inserted statements take the blank lines and comments of what they stand in front of."""
        if before and kept:
            lead = kept[0].leading_lines
            kept = [kept[0].with_changes(leading_lines=[]), *kept[1:]]
            before = self.with_lead(before, lead)
        return [*before, *kept, *after]

    def with_lead(self, statements, lead):
        if not statements or not lead:
            return statements
        first = statements[0]
        return [first.with_changes(leading_lines=[*lead, *first.leading_lines]), *statements[1:]]

    def with_comments_of(self, old: cst.BaseCompoundStatement, statements: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Statements that take a compound one's place: its first line's comment stays on their first line, those inside it stand above."""
        end, inside = block_comments(old.body)
        first = statements[0]
        if end.comment is not None and isinstance(first, cst.SimpleStatementLine):
            statements = [first.with_changes(trailing_whitespace=end), *statements[1:]]
        return self.with_lead(statements, [*old.leading_lines, *inside])

    def inserted(self, ops) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        before, after = [], []
        for op in ops:
            if isinstance(op, InsertStatement) and op.where != "body_end":
                (before if op.where == "before" else after).extend(
                    templates.statements(op.code, self.filled(op), self.config)
                )
        return before, after

    def extended(self, ops, node):
        """Statements added at the end of a compound statement's body."""
        for op in ops:
            if not (isinstance(op, InsertStatement) and op.where == "body_end"):
                continue
            new = templates.statements(op.code, self.filled(op), self.config)
            body = node.body
            if isinstance(body, cst.SimpleStatementSuite):
                body = cst.IndentedBlock([cst.SimpleStatementLine([s.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for s in body.body])
            node = node.with_changes(body=body.with_changes(body=[*body.body, *new]))
        return node

    def unwrapped(self, op: UnwrapBlock, node):
        block = node.body if op.branch == "body" else getattr(node.orelse, "body", None)
        if op.branch == "orelse" and isinstance(node.orelse, cst.If):
            chained = node.orelse
            return self.with_lead([chained], node.leading_lines), []
        if block is None:
            return [], commented(node.leading_lines)
        if isinstance(block, cst.SimpleStatementSuite):
            body = [cst.SimpleStatementLine(body=list(block.body), trailing_whitespace=block.trailing_whitespace)]
            footer = []
        else:
            body, footer = list(block.body), comments(block.footer)
        if is_only_pass(body):
            return [], [*comments(node.leading_lines), *footer]
        return self.with_lead(body, node.leading_lines), footer

    def rebuild_suite(self, original: cst.SimpleStatementSuite, updated: cst.SimpleStatementSuite):
        """`if x: a(); b()` on one line: removed statements leave `pass` behind."""
        body = self.sequence(original, updated) or [cst.Pass()]
        if all(isinstance(node, cst.BaseSmallStatement) for node in body):
            return updated.with_changes(body=with_semicolons(body, original.body[-1].semicolon))
        return cst.IndentedBlock(as_lines(body), header=updated.trailing_whitespace)


def with_dot_of(node: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
    """`a.cuda()` that became `a.to(d)`: line breaks and comments around the dot stay as they were."""
    if not (isinstance(node, cst.Call) and isinstance(updated, cst.Call)):
        return node
    new, old = node.func, updated.func
    if isinstance(new, cst.Attribute) and isinstance(old, cst.Attribute) and new.value is old.value:
        return node.with_changes(func=new.with_changes(dot=old.dot))
    return node


LOOSE = (cst.IfExp, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation, cst.Lambda, cst.NamedExpr, cst.BinaryOperation)
TIGHT_PLACES = (
    cst.Attribute, cst.Subscript, cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget,
    cst.BooleanOperation, cst.Await, cst.StarredElement, cst.Decorator, cst.IfExp, cst.CompFor, cst.CompIf,
)


def binds_alike(node: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    return isinstance(other, type(node)) and type(getattr(node, "operator", None)) is type(getattr(other, "operator", None))


def needs_parentheses(node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
    """Would a loose expression change meaning in this place without parentheses?"""
    if not isinstance(node, LOOSE) or node.lpar or not isinstance(parent, TIGHT_PLACES):
        return False
    if isinstance(node, (cst.Comparison, cst.UnaryOperation)):
        is_not = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        return not (is_not or isinstance(parent, (cst.BooleanOperation, cst.IfExp, cst.CompIf)))
    return True


def smalls(lines: list[cst.BaseSmallStatement | cst.BaseStatement]) -> list[cst.BaseSmallStatement | cst.BaseCompoundStatement]:
    """Statements taken out of their lines; comments written for a line of their own are lost on a shared one."""
    found = []
    for line in lines:
        found += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    return found


def as_lines(body) -> list[cst.BaseStatement]:
    """Each statement on a line of its own."""
    plain = cst.MaybeSentinel.DEFAULT
    return [
        cst.SimpleStatementLine([node.with_changes(semicolon=plain)]) if isinstance(node, cst.BaseSmallStatement) else node for node in body
    ]


def with_semicolons(body: list[cst.BaseSmallStatement], last) -> list[cst.BaseSmallStatement]:
    """Small statements of one line; the last ends as the line's last did."""
    plain = cst.MaybeSentinel.DEFAULT
    inner = [node.with_changes(semicolon=plain) if node.semicolon is last else node for node in body[:-1]]
    return [*inner, body[-1].with_changes(semicolon=last)]


def may_do_something(test: cst.BaseExpression) -> bool:
    """Does evaluating a condition do more than look?"""
    code = printed(test)
    return not only_looks(ast.parse(f"({code}\n)", mode="eval").body)


class _Comments(cst.CSTVisitor):
    """The comments of a block that stand on lines of their own or at the end of statements, in order; not those inside parentheses."""

    def __init__(self):
        super().__init__()
        self.found: list[cst.Comment] = []

    def visit_ParenthesizedWhitespace(self, node: cst.ParenthesizedWhitespace) -> bool:
        return False

    def visit_Comment(self, node: cst.Comment) -> None:
        self.found.append(node)


def block_comments(body: cst.BaseSuite) -> tuple[cst.TrailingWhitespace, list[cst.EmptyLine]]:
    """The end of the line that opens a block, and the other comments in the block as lines."""
    end = body.header if isinstance(body, cst.IndentedBlock) else body.trailing_whitespace
    comments = _Comments()
    body.visit(comments)
    return end, [cst.EmptyLine(comment=comment) for comment in comments.found if comment is not end.comment]


def comments(lines) -> list[cst.EmptyLine]:
    return [line for line in lines if line.comment is not None]


def commented(lines) -> list[cst.EmptyLine]:
    """The lines up to the last comment: comments that outlive their statement keep their distance to what is above."""
    last = max((index for index, line in enumerate(lines) if line.comment is not None), default=-1)
    return list(lines[: last + 1])


def without_blank_lines(statement):
    """A statement that came to the top of its block, without the blank lines that parted it from what was there."""
    lead = list(statement.leading_lines)
    first = next((index for index, line in enumerate(lead) if line.comment is not None), len(lead))
    return statement.with_changes(leading_lines=lead[first:])


def is_only_pass(body) -> bool:
    return len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) and all(isinstance(s, cst.Pass) for s in body[0].body)


def without_name(node, bound_name: str):
    """An import statement without one of its names; None when it was the only one, or `*`."""
    if isinstance(node.names, cst.ImportStar):
        return None
    kept = [alias for alias in node.names if bound(alias) != bound_name]
    if not kept:
        return None
    if len(kept) == len(node.names):
        return node
    last = kept[-1]
    if node.names[-1] is not last:
        kept[-1] = last.with_changes(comma=node.names[-1].comma)
    return node.with_changes(names=kept)


def bound(alias: cst.ImportAlias) -> str:
    if alias.asname is not None:
        return alias.asname.name.value
    return printed(alias.name)


def check_parses(text: str) -> None:
    """A rewritten file must still be Python."""
    try:
        parse_python(text)
    except Unparsable as error:
        raise NotRewritable(f"the edits would break line {error.line} ({error}); this is a bug in xlaport") from None
