"""All that a rule written in Python imports: the context it looks at, and the findings it yields."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from xlaport.analysis import facts as syntax
from xlaport.analysis.facts import ModuleFacts
from xlaport.analysis.names import Names
from xlaport.analysis.project import Module, Project
from xlaport.analysis.parallel import Mode, mode_of
from xlaport.analysis.training import Training, training_of
from xlaport.analysis.values import Kind, Values
from xlaport.config import Settings
from xlaport.findings import Confidence, Danger, Effect, Finding, Fix, Grade, Location, Severity
from xlaport.rewrite.ops import (
    AddPrelude, AddWithItem, EditCall, EnsureImport, InsertStatement, Op, RemoveDecorator, RemoveImportedName, RemoveStatement,
    RemoveWithItem, ReplaceExpr, ReplaceStatement, UnwrapBlock, WrapExpr,
)
from xlaport.ruleset.schema import Replace, Rule
from xlaport.targets.base import Target


@dataclass(frozen=True, eq=False)
class Context:
    """One module seen by one rule."""

    rule: Rule
    module: Module
    project: Project
    target: Target
    settings: Settings

    @property
    def facts(self) -> ModuleFacts:
        return self.module.facts

    @property
    def names(self) -> Names:
        return self.module.names

    @property
    def values(self) -> Values:
        return self.module.values

    @property
    def training(self) -> Training:
        """Loops and steps of the module."""
        return training_of(self.module)

    @cached_property
    def on_device(self) -> bool:
        """Does this file belong to a program that speaks of an accelerator?"""
        return self.project.on_device(self.module.source.path)

    def is_captured(self, node: ast.AST) -> bool:
        """Does torch.compile capture the place as part of a graph, as far as this file says?"""
        return self.module.captured.holds(node)

    @cached_property
    def mode(self) -> Mode:
        """How the program of this file is parallel, and so what its steps become."""
        return mode_of(self.module, self.project, self.target.distributed or self.settings.distributed, self.settings.runtime_library)

    def text(self, node: ast.AST) -> str:
        return self.facts.text(node)

    def refers(self, node: ast.AST | None, *names: str) -> bool:
        """Does the expression refer to one of these qualified names?"""
        return node is not None and any(name in names for name in self.names.qualified(node))

    def calls(self, *names: str) -> Iterable[ast.Call]:
        """Calls of one of these functions, in source order."""
        return self.names.calls(*(name for name in names if name not in self.target.own))

    def names_any(self, *names: str) -> bool:
        """Does any expression of the file refer to one of these?"""
        return not self.names.references.keys().isdisjoint(names)

    def uses(self, *names: str) -> Iterable[ast.expr]:
        """Live calls of these functions, and places that name one without calling it; a local second name is not a use."""
        for call in self.calls(*names):
            if not syntax.is_dead(call):
                yield call
        named = {id(node): node for name in names for node in self.names.references.get(name, ()) if name not in self.target.own}
        for node in named.values():
            if syntax.is_read(node) and not self.is_second_name(node) and not syntax.is_dead(node):
                yield node

    def named_below(self, module: str) -> Iterator[tuple[str, ast.expr]]:
        """Live uses of a module's names, with the longest name that is written there."""
        for name, nodes in self.names.references.items():
            for node in nodes if is_below(name, module) else ():
                if not isinstance(node.parent, ast.Attribute) and not syntax.is_dead(node) and (syntax.is_read(node) or syntax.is_called(node)):
                    yield name, node

    def imports_below(self, *modules: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, str, bool]]:
        """Imports of modules and of what is in them: the statement, the name there, what it stands for, and whether anything uses it."""
        used = {node.id for node in self.facts.of(ast.Name) if not syntax.is_dead(node)}
        for node in self.facts.of(ast.Import, ast.ImportFrom):
            for alias, name in zip(node.names, syntax.imported(node)):
                if any(is_below(name, module) for module in modules):
                    bound = alias.asname or alias.name
                    yield node, bound, name, bound.split(".")[0] in used

    def is_second_name(self, node: ast.expr) -> bool:
        """A name the file itself gave: the finding belongs to the place that gave it."""
        return isinstance(node, ast.Name) and all(binding.target is None for binding in self.names.bindings(node))

    def calls_of_method(self, *methods: str) -> Iterable[ast.Call]:
        """Live calls `x.method(...)`, whatever `x` is, in source order."""
        named = [call for method in dict.fromkeys(methods) for call in self.values.calls_by_last_name.get(method, ())]
        found = [call for call in named if isinstance(call.func, ast.Attribute) and not syntax.is_dead(call)]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset)) if len(methods) > 1 else found

    def calls_with_keyword(self, name: str) -> Iterable[ast.Call]:
        """Calls `f(..., name=...)`, in source order."""
        return (node.parent for node in self.facts.of(ast.keyword) if node.arg == name and isinstance(node.parent, ast.Call))

    # -- findings

    def finding(
        self,
        node: ast.AST,
        message: str = "",
        ops: Iterable[Op] | None = None,
        *,
        grade: Grade | None = None,
        danger: Danger | None = None,
        severity: Severity | None = None,
        grouped: bool | None = None,
        is_idiom: bool = True,
        effects: tuple[Effect, ...] = (),
        confidence: Confidence = Confidence.CERTAIN,
        fix: Fix | None = None,
        leaves: str = "",
    ) -> Finding:
        """A finding of this rule at a node; with `ops`, its fix. The rule's own values are the defaults.

        Words of the target (`{runtime}`) in the sentence are spelled for it.
        """
        if self.rule.left_with:
            message, ops, fix = self.rule.left_with, None, None
        elif self.rule.instead is not None:
            ops, fix = self.instead(node, self.rule.instead), None
        if ops is not None:
            in_group = self.rule.group if grouped in (None, True) else None
            fix = Fix(grade or self.rule.grade, tuple(ops), in_group)
        return Finding(
            code=self.rule.code,
            name=self.rule.name,
            path=self.module.source.name,
            location=self.location(node),
            message=self.target.expand(message or self.rule.summary),
            severity=severity or self.rule.severity,
            danger=danger or self.rule.danger,
            fix=fix,
            is_idiom=is_idiom,
            effects=effects or self.rule.effects,
            confidence=confidence,
            leaves=self.target.expand(leaves),
        )

    def location(self, node: ast.AST) -> Location:
        if not hasattr(node, "lineno"):
            return Location(1, 1, 1, 1)
        span = self.facts.span(node)
        source = self.module.source
        return Location(*source.position(span.start), *source.position(span.end))

    # -- operations

    def replace(self, node: ast.expr, template: str, **holes: ast.AST) -> list[Op]:
        """Replace an expression by a template; placeholders are the target's words, or holes given as nodes."""
        code = self.quoted_for(node, self.target.expand(template, holes))
        spans = tuple((name, self.facts.span(hole)) for name, hole in holes.items())
        return [ReplaceExpr(self.facts.span(node), code, spans), *self.imports_for(code)]

    def wrap(self, node: ast.expr, template: str) -> list[Op]:
        """Put an expression into a template at `{call}`; edits inside it survive."""
        code = self.target.expand(template)
        return [WrapExpr(self.facts.span(node), code), *self.imports_for(code)]

    def quoted_for(self, node: ast.AST, code: str) -> str:
        """Inside an f-string, strings of a template take the quotes that do not end it (Python 3.11 needs that)."""
        outer = self.facts.in_fstring.get(id(node))
        if outer is None:
            return code
        whole = self.facts.text(syntax.outermost_fstring(outer, self.facts))
        return code.replace('"', "'") if whole.lstrip("rRfF").startswith('"') else code.replace("'", '"')

    def imports_for(self, code: str) -> list[Op]:
        return [EnsureImport(alias) for alias in self.target.aliases_in(code)]

    def edit_call(self, call: ast.Call, *, remove: Iterable[str] = (), positions: Iterable[int] = (), **keywords: str) -> list[Op]:
        """Remove keywords or positional arguments of a call, and set others to templates."""
        pairs = tuple((name, self.target.expand(template)) for name, template in keywords.items())
        op = EditCall(self.facts.span(call), tuple(remove), tuple(positions), pairs)
        return [op, *(imp for _, code in pairs for imp in self.imports_for(code))]

    def remove(self, statement: ast.stmt) -> list[Op]:
        return [RemoveStatement(self.facts.span(statement))]

    def replace_statement(self, statement: ast.stmt, template: str, **holes: ast.AST) -> list[Op]:
        code = self.target.expand(template, holes)
        spans = tuple((name, self.facts.span(hole)) for name, hole in holes.items())
        return [ReplaceStatement(self.facts.span(statement), code, spans), *self.imports_for(code)]

    def insert(self, statement: ast.stmt, where: str, template: str, **holes: ast.AST) -> list[Op]:
        """Insert statements `before` or `after` a statement, or at the `body_end` of a compound one."""
        code = self.target.expand(template, holes)
        spans = tuple((name, self.facts.span(hole)) for name, hole in holes.items())
        return [InsertStatement(self.facts.span(statement), where, code, spans), *self.imports_for(code)]

    def unwrap(self, statement: ast.stmt, branch: str = "body") -> list[Op]:
        return [UnwrapBlock(self.facts.span(statement), branch)]

    def prelude(self, code: str) -> list[Op]:
        expanded = self.target.expand(code)
        return [AddPrelude(expanded), *self.imports_for(expanded)]

    def instead(self, node: ast.AST, replace: Replace) -> list[Op] | None:
        """What a page says takes the place of all that its Python file finds."""
        if isinstance(node, ast.stmt):
            return self.remove(node) if replace.drop else self.replace_statement(node, replace.expr)
        return self.drop(node, replace.value) if replace.drop else self.replace(node, replace.expr)

    def ensure(self, *aliases: str) -> list[Op]:
        """Imports without an expression that names them: such as the target needs."""
        return [EnsureImport(alias) for alias in aliases if alias in self.target.imports]

    def drop_imported(self, statement: ast.stmt, bound_name: str) -> list[Op]:
        return [RemoveImportedName(self.facts.span(statement), bound_name)]

    def drop(self, node: ast.expr, value: str = "") -> list[Op] | None:
        """Remove what an expression does: its statement, decorator or `with` item; else put `value` there.

        None where it is used as a value and `value` is empty.
        """
        parent = node.parent
        if isinstance(parent, ast.Expr):
            return self.remove(parent)
        if isinstance(parent, ast.withitem):
            return self.drop_with_item(parent)
        if node in getattr(parent, "decorator_list", ()):
            return [RemoveDecorator(self.facts.span(node))]
        return self.replace(node, value) if value else None

    def drop_with_item(self, item: ast.withitem) -> list[Op]:
        statement = item.parent
        if len(statement.items) == 1:
            return self.unwrap(statement)
        return [RemoveWithItem(self.facts.span(statement), statement.items.index(item))]

    def add_with_item(self, statement: ast.With, template: str) -> list[Op]:
        code = self.target.expand(template)
        return [AddWithItem(self.facts.span(statement), code), *self.imports_for(code)]

    def without_element(self, element: ast.expr, if_empty: str = "") -> list[Op] | None:
        """Take an element out of the list, tuple or set that is written around it; None when it is in none."""
        holder = element.parent
        if not isinstance(holder, (ast.List, ast.Tuple, ast.Set)):
            return None
        kept = [item for item in holder.elts if item is not element]
        if not kept:
            return self.replace(holder, if_empty) if if_empty else None
        opening, closing = {ast.List: "[]", ast.Set: "{}", ast.Tuple: "()"}[type(holder)]
        names = [f"element{index}" for index in range(len(kept))]
        comma = "," if isinstance(holder, ast.Tuple) and len(kept) == 1 else ""
        template = opening + ", ".join("{" + name + "}" for name in names) + comma + closing
        return self.replace(holder, template, **dict(zip(names, kept)))


__all__ = [
    "AddPrelude", "Context", "Danger", "EditCall", "EnsureImport", "Finding", "Grade", "InsertStatement", "Kind", "Mode",
    "Severity", "syntax",
]


def is_below(name: str, module: str) -> bool:
    """Is it the module, or something in it?"""
    return name == module or name.startswith(module + ".")
