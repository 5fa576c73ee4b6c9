"""CUDA events: points in a stream, used to take time or to order streams."""

import ast
from dataclasses import dataclass, field

from xlaport.ruleset.api import Context, Danger, syntax

EVENTS = ("torch.cuda.Event", "torch.Event")
WAITS = {"synchronize", "wait", "query"}
READING = "{sync_wait}\n{variable} = time.perf_counter()"
MANUAL = "record() raises without a GPU: take the time with {sync_wait} and time.perf_counter()"


@dataclass(eq=False)
class Event:
    """One variable that holds events: where it is made, and what is done with it."""

    name: str
    made: list[ast.Call] = field(default_factory=list)
    records: list[ast.Expr] = field(default_factory=list)
    waits: list[ast.Expr] = field(default_factory=list)
    differences: list[ast.Call] = field(default_factory=list)
    partners: set[str] = field(default_factory=set)
    is_tested: bool = False
    is_plain: bool = True


def check(context: Context):
    events: dict[tuple[ast.AST, str], Event] = {}
    for call in context.uses(*EVENTS):
        holder = variable(call)
        if holder is None:
            yield context.finding(call, MANUAL)
            continue
        scope = scope_of(holder)
        name = context.text(holder)
        events.setdefault((scope, name), Event(name)).made.append(call)
    for (scope, _), event in events.items():
        collect_uses(context, scope, event)
    drop_unpaired(events)
    timed = {key for key, event in events.items() if event.differences or event.partners}
    for key, event in events.items():
        if not event.is_plain or event.is_tested and key not in timed or key in timed and is_taken(context, "time"):
            for call in event.made:
                yield context.finding(call, MANUAL)
            continue
        yield from converted(context, event, key in timed)


def variable(call: ast.expr) -> ast.expr | None:
    """`start` of `start = Event()` and `self.start` of `self.start = Event()`."""
    statement = call.parent
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
    return target if isinstance(target, ast.Name) or is_own else None


def scope_of(holder: ast.expr) -> ast.AST:
    if isinstance(holder, ast.Name):
        return syntax.enclosing_scope(holder)
    return syntax.enclosing(holder, ast.ClassDef) or syntax.enclosing_scope(holder)


def collect_uses(context: Context, scope: ast.AST, event: Event) -> None:
    for node in ast.walk(scope):
        if not isinstance(node, (ast.Name, ast.Attribute)) or context.text(node) != event.name or node.parent in targets(event):
            continue
        if isinstance(node, ast.Name) and syntax.enclosing_scope(node) is not scope:
            event.is_plain = False
            continue
        method = node.parent.attr if isinstance(node.parent, ast.Attribute) else ""
        call = node.parent.parent if method else None
        statement = call.parent if isinstance(call, ast.Call) and call.func is node.parent else None
        if method == "record" and isinstance(statement, ast.Expr):
            event.records.append(statement)
        elif method in WAITS and isinstance(statement, ast.Expr):
            event.waits.append(statement)
        elif method == "elapsed_time" and statement is not None and len(call.args) == 1:
            event.differences.append(call)
        elif is_partner(node):
            event.partners.add(context.text(node.parent.func.value))
        elif is_none_test(node):
            event.is_tested = True
        elif not is_waited_for(node) and not is_cleared(node):
            event.is_plain = False


def targets(event: Event) -> list[ast.stmt]:
    return [call.parent for call in event.made]


def is_partner(node: ast.expr) -> bool:
    call = node.parent
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "elapsed_time"


def is_none_test(node: ast.expr) -> bool:
    test = node.parent
    return isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None


def is_cleared(node: ast.expr) -> bool:
    """`self.start = None`."""
    value = getattr(node.parent, "value", None)
    return isinstance(node.ctx, ast.Store) and isinstance(value, ast.Constant) and value.value is None


def is_waited_for(node: ast.expr) -> bool:
    """`stream.wait_event(event)`: removed with its stream."""
    call = node.parent
    return (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in {"wait_event", "record_event"}
        and isinstance(call.parent, ast.Expr)
    )


def drop_unpaired(events: dict[tuple[ast.AST, str], Event]) -> None:
    """An event whose partner in `elapsed_time` stays as it is stays, too."""
    changed = True
    while changed:
        changed = False
        for (scope, name), event in events.items():
            others = event.partners | {ast.unparse(call.args[0]) for call in event.differences}
            partners = [events.get((scope, other)) for other in others]
            if event.is_plain and any(partner is None or not partner.is_plain for partner in partners):
                event.is_plain = False
                changed = True


def is_taken(context: Context, module: str) -> bool:
    """Does the file use the module's name for something else (`from time import time`)?"""
    bound = context.names.scopes.get(context.facts.tree, {}).get(module, [])
    return any(binding.target != module for binding in bound)


def converted(context: Context, event: Event, timed: bool):
    ops = [op for wait in event.waits for op in context.remove(wait)]
    for record in event.records:
        reading = READING.replace("{variable}", event.name)
        ops += context.replace_statement(record, reading) if timed else context.remove(record)
    for call in event.differences:
        ops += context.replace(call, difference(call), start=call.func.value, end=call.args[0])
    message = "record() raises without a GPU; on {runtime} time is taken on the host after a sync" if timed else "orders streams, which {runtime} does by itself"
    for number, call in enumerate(event.made):
        removal = context.replace(call, "0.0") if event.is_tested else context.remove(call.parent)
        yield context.finding(call, message, [*removal, *(ops if number == 0 else [])], danger=Danger.LOUD)


def difference(call: ast.Call) -> str:
    binds_tighter = isinstance(call.parent, (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript))
    return "(({end} - {start}) * 1000)" if binds_tighter else "({end} - {start}) * 1000"
