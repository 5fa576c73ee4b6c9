"""Runs rules whose conditions are data: calls, references and imports looked up by qualified name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from xlaport.analysis.facts import FUNCTIONS, ancestors, enclosing_scope, imported, is_called, is_dead, is_read
from xlaport.analysis.training import contains
from xlaport.findings import Confidence, Danger, Finding, Grade, Severity
from xlaport.residue import WORDS
from xlaport.ruleset.api import Context
from xlaport.ruleset.schema import Rule

HOLE = re.compile(r"\{(arg(\d+)|args|receiver|kw_(\w+))\}")


@dataclass(frozen=True)
class Index:
    """Rules by what triggers them. Exact names win over the `a.b.*` families."""

    calls: dict[str, list[Rule]] = field(default_factory=dict)
    references: dict[str, list[Rule]] = field(default_factory=dict)
    imports: dict[str, list[Rule]] = field(default_factory=dict)
    libraries: dict[str, list[Rule]] = field(default_factory=dict)
    checks: list[Rule] = field(default_factory=list)
    events: dict[str, Rule] = field(default_factory=dict)
    has_own: bool = False
    """Are there rules that xlaport does not ship?"""


def index(rules: tuple[Rule, ...], has_own: bool = False) -> Index:
    built = Index(has_own=has_own)
    for rule in rules:
        for table, names in (
            (built.calls, rule.match.call), (built.references, rule.match.reference),
            (built.imports, rule.match.imports), (built.libraries, rule.match.library),
        ):
            for name in names:
                table.setdefault(name, []).append(rule)
        if rule.check is not None:
            built.checks.append(rule)
        for event in rule.match.event:
            built.events[event] = rule
    return built


def lookup(table: dict[str, list[Rule]], name: str) -> list[Rule]:
    """Rules for a name: its own, else those of the nearest family `a.b.*`."""
    found = table.get(name)
    if found is not None:
        return found
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found = table.get(".".join(parts[:cut]) + ".*")
        if found is not None:
            return found
    return []


def matches(built: Index, context_for) -> Iterator[Finding]:
    """Findings of the rules in data for one module. `context_for(rule)` gives the rule's view of it."""
    any_context = context_for(None)
    yield from matched_calls(built, any_context, context_for)
    yield from matched_references(built, any_context, context_for)
    yield from matched_imports(built, any_context, context_for)
    yield from matched_libraries(built, any_context, context_for)


def matched_calls(built: Index, view: Context, context_for) -> Iterator[Finding]:
    for rule, node in found_by_name(built.calls, view):
        if is_called(node) and not is_dead(node):
            yield finding_for_call(context_for(rule), node.parent)


def matched_references(built: Index, view: Context, context_for) -> Iterator[Finding]:
    for rule, node in found_by_name(built.references, view):
        if is_read(node) and not view.is_second_name(node) and not is_dead(node):
            yield finding_for_reference(context_for(rule), node)


def matched_events(built: Index, context_for) -> Iterator[Finding]:
    """What happens in the steps of a module, as findings of the rules for each kind of event."""
    view = context_for(None)
    from xlaport.analysis.flow.interpret import Interpreter  # a third of the start, for `lint` alone

    for event in Interpreter(view.module).run():
        rule = built.events.get(event.kind.value)
        if rule is not None:
            sentence = f"{event.what}: {rule.summary}"
            confidence = Confidence.CERTAIN if event.certain else Confidence.LIKELY
            context = context_for(rule)
            if event.hot:
                fix = rule.fix(context, event) if rule.fix is not None else None
                severity = None
                if rule.captured is not None and context.is_captured(event.node):
                    severity, sentence = rule.captured, f"{sentence} (in code that torch.compile captures)"
                yield context.finding(event.node, sentence, severity=severity, is_idiom=False, effects=event.effects, confidence=confidence, fix=fix)
            else:
                sentence = f"{event.what}, once an epoch: a Python value is read from the device"
                yield context.finding(event.node, sentence, severity=Severity.NOTE, is_idiom=False, effects=event.effects, confidence=confidence)


def found_by_name(table: dict[str, list[Rule]], view: Context) -> list[tuple[Rule, ast.expr]]:
    """Each rule of the table with each expression that refers to a name of its, once."""
    found: dict[tuple[str, int], tuple[Rule, ast.expr]] = {}
    roots = roots_of(table)
    for name, nodes in view.names.references.items():
        for rule in lookup(table, name) if name.partition(".")[0] in roots else ():
            for node in nodes:
                found[rule.code, id(node)] = rule, node
    return list(found.values())


def roots_of(table: dict[str, list[Rule]]) -> set[str]:
    return {name.partition(".")[0] for name in table}


def matched_imports(built: Index, view: Context, context_for) -> Iterator[Finding]:
    for node in view.facts.of(ast.Import, ast.ImportFrom):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if isinstance(node, ast.ImportFrom) and node.level:
            continue
        for rule in unique(rules_above(built.imports, module) for module in modules):
            yield context_for(rule).finding(node, rule.summary)


def rules_above(table: dict[str, list[Rule]], name: str) -> list[Rule]:
    """Rules of the longest start of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        found = table.get(".".join(parts[:cut]))
        if found is not None:
            return found
    return []


def matched_libraries(built: Index, view: Context, context_for) -> Iterator[Finding]:
    """Imports of a library, and each expression that names something of it."""
    for node in view.facts.of(ast.Import, ast.ImportFrom):
        for rule, name in unique_pairs(built, view, imported(node)):
            yield import_finding(context_for(rule), node, name)
    said: set[tuple[Rule, str, ast.AST]] = set()
    roots = roots_of(built.libraries)
    named = [
        node for name, nodes in view.names.references.items()
        if name.partition(".")[0] in roots and rules_above(built.libraries, name) for node in nodes
    ]
    for node in sorted(dict.fromkeys(named), key=lambda node: (node.lineno, node.col_offset)):
        if not (is_read(node) or is_called(node)) or view.is_second_name(node) or is_dead(node):
            continue
        for rule, name in unique_pairs(built, view, view.names.qualified(node)):
            message = advice(rule, name)
            place = (rule, message, enclosing_scope(node))
            if place in said and not WORDS.search(view.text(node)):
                continue  # `tl.load`, `trt.Logger`: the function as a whole is the work, and names the library once
            said.add(place)
            yield context_for(rule).finding(node.parent if is_called(node) else node, message)


def unique_pairs(built: Index, view: Context, names) -> list[tuple[Rule, str]]:
    """The first of the names each library rule speaks of; modules of the project are no library."""
    found: dict[Rule, str] = {}
    for name in names:
        for rule in rules_above(built.libraries, name):
            if rule not in found and not view.project.provides(name, view.module.source.path):
                found[rule] = name
    return list(found.items())


def import_finding(context: Context, node: ast.stmt, name: str) -> Finding:
    message = advice(context.rule, name)
    if is_guarded(node):
        return context.finding(node, f"optional here, the program runs without it; {message}", danger=Danger.NONE, severity=Severity.NOTE)
    return context.finding(node, message)


def advice_for(context: Context, node: ast.expr) -> str:
    names = context.names.qualified(node)
    return advice(context.rule, names[0]) if names else context.rule.summary


def advice(rule: Rule, name: str) -> str:
    parts = name.split(".")
    starts = (".".join(parts[:cut]) for cut in range(len(parts), 0, -1))
    return next((rule.advice[start] for start in starts if start in rule.advice), rule.summary)


def is_guarded(node: ast.stmt) -> bool:
    """In a `try` that handles a failed import."""
    for parent in ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return False
        if isinstance(parent, ast.Try) and any(catches_import_error(handler) for handler in parent.handlers):
            return any(contains(statement, node) for statement in parent.body)
    return False


def catches_import_error(handler: ast.ExceptHandler) -> bool:
    names = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    reraises = isinstance(handler.body[-1], ast.Raise)
    return not reraises and (handler.type is None or any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(handler.type)))




def unique(groups) -> list[Rule]:
    return list(dict.fromkeys(rule for group in groups for rule in group))


def finding_for_call(context: Context, call: ast.Call) -> Finding:
    replace = context.rule.replace
    if replace is None or context.rule.grade is Grade.MANUAL:
        return context.finding(call, advice_for(context, call.func))
    if replace.drop:
        return context.finding(call, ops=context.drop(call, replace.value))
    if replace.remove or replace.set:
        return context.finding(call, ops=context.edit_call(call, remove=replace.remove, **replace.set))
    return context.finding(call, ops=expand_call(context, call, replace.expr))


def finding_for_reference(context: Context, node: ast.expr) -> Finding:
    replace = context.rule.replace
    if replace is None or context.rule.grade is Grade.MANUAL or HOLE.search(replace.expr):
        return context.finding(node, advice_for(context, node))
    if replace.drop:
        statement = node.parent
        is_setting = isinstance(statement, ast.Assign) and node in statement.targets
        return context.finding(node, ops=context.remove(statement) if is_setting else context.drop(node, replace.value))
    return context.finding(node, ops=context.replace(node, replace.expr))


def expand_call(context: Context, call: ast.Call, template: str):
    """Operations that replace a call by a template with parts of the call; None when a part is missing."""
    holes = {}
    for name, position, keyword in HOLE.findall(template):
        part = part_of(call, name, position, keyword)
        if part is None:
            return None
        holes[name] = part
    return context.replace(call, template, **holes)


def part_of(call: ast.Call, name: str, position: str, keyword: str) -> ast.expr | None:
    if position:
        return call.args[int(position)] if int(position) < len(call.args) else None
    if keyword:
        return next((item.value for item in call.keywords if item.arg == keyword), None)
    return call.func.value if isinstance(call.func, ast.Attribute) else None
