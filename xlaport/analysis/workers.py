"""Programs that start their own workers: how a count of devices, asked in the parent, reaches them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from xlaport.analysis.devices import COUNTS, is_starter, truth
from xlaport.analysis.facts import FUNCTIONS, FunctionNode, ancestors, argument, enclosing_scope, own_nodes, statement_of
from xlaport.analysis.names import Names
from xlaport.analysis.project import Module
from xlaport.analysis.values import Kind, argument_for, constant, default_of, guess_by_name, last_name

ASKING_XLA = frozenset({
    "torch.distributed.init_process_group", "torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler",
})
"""What is given a number of processes, and in a port asks XLA for it."""

SAYING = frozenset({"print", "info", "warning", "warn", "debug", "log"})
ALL_RANKS = re.compile(r"world|replicas")


@dataclass(frozen=True, eq=False)
class Start:
    """`mp.spawn(worker, args=(...))` with the function it starts; `given` maps its parameters to what they are given.

    Where a helper of the file holds the spawn, `call` is that of the helper, in whose parameters the rest is read.
    """

    call: ast.Call
    worker: FunctionNode
    given: dict[str, ast.expr]
    helper: FunctionNode | None = None

    def parameter_of(self, text: str) -> str | None:
        """What the worker calls a value: its own parameter, or an attribute of one."""
        for name, value in self.given.items():
            written = ast.unparse(value)
            if written == text:
                return name
            if text.startswith(written + "."):
                return name + text[len(written):]
        return None

    @property
    def index(self) -> str:
        return self.worker.args.args[0].arg

    def in_worker(self, node: ast.AST) -> str | None:
        """Code of the parent in the words of the worker; None where it has a name the worker does not know."""
        code = ast.unparse(node)
        known = {ast.unparse(value): name for name, value in self.given.items()}
        names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        if any(name not in known and name in local_names(enclosing_scope(self.call)) for name in names):
            return None
        for written, name in known.items():
            code = re.sub(rf"(?<![\w.]){re.escape(written)}(?!\w)", name, code)
        return code


@dataclass(eq=False)
class Carried:
    """A count asked before the workers start, and what is made of it.

    `counts` and `totals` are the worker's names for it and for the number of all ranks; `repeated` are statements
    that divide or multiply by it, which the worker has to run itself; `gates` start workers only where there
    are several devices, in the branch named; `unsure` is what cannot be followed.
    """

    start: Start | None
    places: list[ast.Call]
    """All calls of the function that start workers."""
    counts: list[str] = field(default_factory=list)
    totals: list[str] = field(default_factory=list)
    repeated: list[ast.Assign] = field(default_factory=list)
    gates: list[tuple[ast.If, Literal["body", "orelse"]]] = field(default_factory=list)
    unsure: list[ast.expr] = field(default_factory=list)


def local_names(scope: ast.AST) -> set[str]:
    """Names a function binds; none for the module's own code, whose names every worker sees."""
    if isinstance(scope, ast.Module):
        return set()
    stored = {node.id for node in own_nodes(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {item.arg for item in scope.args.args}


def joining(worker: FunctionNode, module: Module) -> ast.Call | None:
    """Where a worker joins its process group, itself or by a function: before it, a process that torchrun started may not touch the TPU."""
    calls = [node for node in own_nodes(worker) if isinstance(node, ast.Call)]
    return next((call for call in calls if joins(call, module.names)), None) or next((
        call for call in calls for function, values in module.values.functions_called(call)
        if function is not worker and any(isinstance(node, ast.Call) and joins(node, values.names) for node in own_nodes(function))
    ), None)


def joins(call: ast.Call, names: Names) -> bool:
    return "torch.distributed.init_process_group" in names.qualified(call.func)


def body_statement(node: ast.AST, worker: FunctionNode) -> ast.stmt:
    """The statement of a function's body that holds a node."""
    return next(statement for statement in (node, *ancestors(node)) if statement in worker.body)


def starts_in(scope: ast.AST, module: Module) -> dict[ast.Call, Start | None]:
    """Where a function, or the module's own code, starts workers, itself or by a helper; None for a start that cannot be read."""
    found = {}
    for node in own_nodes(scope):
        if not isinstance(node, ast.Call):
            continue
        if is_starter(node, module.names):
            found[node] = start_of(node, module)
            continue
        for helper, values in module.values.functions_called(node):
            inside = [inner for inner in own_nodes(helper) if isinstance(inner, ast.Call) and is_starter(inner, values.names)]
            if inside:
                found[node] = start_through(node, helper, inside, module) if values is module.values else None
    return found


def start_in(scope: ast.AST, module: Module) -> Start | None:
    """The one place of a function, or of the module's own code, that starts workers of this file."""
    found = list(starts_in(scope, module).values())
    return found[0] if len(found) == 1 else None


def start_of(call: ast.Call, module: Module) -> Start | None:
    return started(call, argument(call, "fn", 0), argument(call, "args", 1) or ast.Tuple([]), module)


def start_through(call: ast.Call, helper: FunctionNode, inside: list[ast.Call], module: Module) -> Start | None:
    """What a helper starts, in the words of its caller."""
    handed = {
        item.arg: argument_for(helper, item, call, isinstance(helper.parent, ast.ClassDef)) or default_of(helper, item)
        for item in (*helper.args.args, *helper.args.kwonlyargs)
    }

    def outside(node: ast.expr | None) -> ast.expr | None:
        """What the caller hands in; None for what only the helper knows."""
        if isinstance(node, ast.Name) and node.id in handed:
            return handed[node.id]
        is_known = node is not None and not any(isinstance(part, ast.Name) and part.id in local_names(helper) for part in ast.walk(node))
        return node if is_known else None

    given = argument(inside[0], "args", 1) or ast.Tuple([])
    if isinstance(given, (ast.Tuple, ast.List)):
        given = ast.Tuple([outside(item) for item in given.elts])
    elif (given := outside(given)) is None:
        return None
    return started(call, outside(argument(inside[0], "fn", 0)), given, module, helper) if len(inside) == 1 else None


def started(call: ast.Call, worker: ast.expr | None, given: ast.expr, module: Module, helper: FunctionNode | None = None) -> Start | None:
    bindings = module.names.bindings(worker) if isinstance(worker, ast.Name) else []
    if len(bindings) != 1 or not isinstance(bindings[0].node, FUNCTIONS) or not isinstance(given, (ast.Tuple, ast.List)):
        return None
    parameters = [item.arg for item in bindings[0].node.args.args]
    if len(parameters) != len(given.elts) + 1:
        return None
    return Start(call, bindings[0].node, {name: value for name, value in zip(parameters[1:], given.elts) if value is not None}, helper)


def every_holder(module: Module) -> Iterator[ast.Assign]:
    """`ngpus = torch.cuda.device_count()`, and the 1 a port has in its place, where workers are started."""
    for node in module.facts.of(ast.Assign):
        if len(node.targets) == 1 and is_count(node, module) and starts_workers(enclosing_scope(node), module):
            yield node


def is_count(node: ast.Assign, module: Module) -> bool:
    if isinstance(node.value, ast.Call):
        return bool(COUNTS.intersection(module.names.qualified(node.value.func)))
    return constant(node.value) == 1 and Kind.WORLD_SIZE in guess_by_name(last_name(node.targets[0]))


def starts_workers(scope: ast.AST, module: Module) -> bool:
    return bool(starts_in(scope, module))


def carried(holder: ast.Assign, module: Module) -> list[Carried]:
    """Follow a count from the statement that asks for it to the workers, for each place that starts them."""
    scope = enclosing_scope(holder)
    starts = starts_in(scope, module)
    found = [Carried(start, list(starts)) for start in starts.values()]
    for each in found:
        follow(holder, each, scope, module, each.counts)
        if each.start is not None and each.start.helper is not None:
            each.unsure += used_by_helper(ast.unparse(holder.targets[0]), each.start)
    return found or [Carried(None, [])]


def handed_over(call: ast.Call, module: Module) -> list[Carried]:
    """A count that is written where workers are started, among what they are given."""
    found = []
    for place, start in starts_in(enclosing_scope(call), module).items():
        names = [name for name, value in start.given.items() if value is call] if start else []
        found += [Carried(start, [place], counts=names)] if names else []
    return found


def is_read(name: str, start: Start, module: Module) -> bool:
    """Is it read outside of the parent, for more than to join the process group and to divide the data?"""
    parent, last, group = enclosing_scope(start.call), name.rpartition(".")[2], joining(start.worker, module)
    for node in module.facts.of(ast.Name, ast.Attribute):
        if (node.id if isinstance(node, ast.Name) else node.attr) != last or not isinstance(node.ctx, ast.Load):
            continue
        calls = [other for other in ancestors(node) if isinstance(other, ast.Call)]
        is_given = any(call is group or ASKING_XLA.intersection(module.names.qualified(call.func)) for call in calls)
        is_seen = "." in name or start.worker in ancestors(node)
        if is_seen and not is_given and enclosing_scope(node) not in (parent, start.helper):
            return True
    return False


def used_by_helper(text: str, start: Start) -> list[ast.expr]:
    """What a helper makes of the count besides handing it on and starting as many workers."""
    names = {
        item.arg for item in start.helper.args.args
        if (value := argument_for(start.helper, item, start.call, isinstance(start.helper.parent, ast.ClassDef))) is not None and ast.unparse(value) == text
    }
    return [
        node for node in own_nodes(start.helper)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and isinstance(node.parent, ast.BinOp) and not is_said(node)
    ]


def follow(holder: ast.Assign, found: Carried, scope: ast.AST, module: Module, names: list[str]) -> None:
    start, text = found.start, ast.unparse(holder.targets[0])
    name = start.parameter_of(text) if start else None
    if name is not None and is_given_alike(text, start, module):
        names.append(name)
    elif name is not None:
        found.unsure.append(start.call)
    for use in own_nodes(scope):
        is_read = isinstance(use, (ast.Name, ast.Attribute)) and isinstance(use.ctx, ast.Load)
        if is_read and use.lineno > holder.end_lineno and ast.unparse(use) == text:
            sort_use(use, found, scope, module)


def is_given_alike(text: str, start: Start, module: Module) -> bool:
    """Do plain calls of the worker give it the same value there?"""
    parameter, expected = next((name, written) for name, value in start.given.items() if text == (written := ast.unparse(value)) or text.startswith(written + "."))
    position = [item.arg for item in start.worker.args.args].index(parameter)
    calls = [
        call for call in module.facts.of(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id == start.worker.name and not call.keywords
    ]
    return all(len(call.args) > position and ast.unparse(call.args[position]) == expected for call in calls)


def sort_use(use: ast.expr, found: Carried, scope: ast.AST, module: Module) -> None:
    start, statement = found.start, statement_of(use)
    if start is None:
        if not is_said(use):
            found.unsure.append(use)
        return
    if any(parent in found.places or is_call_of(parent, start.worker) for parent in ancestors(use)) or is_said(use):
        return
    if isinstance(use.parent, ast.Compare) and isinstance(statement, (ast.If, ast.Assert)):
        branch = gated(statement, use.parent, start) if isinstance(statement, ast.If) else None
        if branch is not None:
            found.gates.append((statement, branch))
        elif any(parent is statement for parent in ancestors(start.call)):
            found.unsure.append(use)
        return
    target = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else ""
    if target and ALL_RANKS.search(target.rpartition(".")[2]):
        follow(statement, found, scope, module, found.totals)
    elif target and is_neutral(statement, use) and always_runs(statement, module) and start.parameter_of(target):
        found.repeated.append(statement)
    else:
        found.unsure.append(use)


def is_said(use: ast.expr) -> bool:
    """Printed or logged."""
    return any(isinstance(parent, ast.Call) and isinstance(parent.parent, ast.Expr) and last_name(parent.func) in SAYING for parent in ancestors(use))


def is_call_of(node: ast.AST, function: FunctionNode) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name


MORE = {(ast.Gt, 1), (ast.GtE, 2), (ast.NotEq, 1)}
FEWER = {(ast.Eq, 1), (ast.LtE, 1), (ast.Lt, 2)}


def gated(statement: ast.If, test: ast.Compare, start: Start) -> Literal["body", "orelse"] | None:
    """The branch of `if ngpus > 1:` (or `if ngpus == 1: ... else:`) that starts the workers; None for another condition."""
    how = (type(test.ops[0]), constant(test.comparators[0]))
    if statement.test is not test or how not in MORE | FEWER:
        return None
    branch = "body" if how in MORE else "orelse"
    return branch if any(node is start.call for part in getattr(statement, branch) for node in ast.walk(part)) else None


def is_neutral(statement: ast.Assign, use: ast.expr) -> bool:
    """`x = x / count`, `x = int(x // count)`: with a count of 1 it leaves `x` as it is, so that it may run once more."""
    value = statement.value
    if isinstance(value, ast.Call) and last_name(value.func) == "int" and len(value.args) == 1:
        value = value.args[0]
    return (
        isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Div, ast.FloorDiv)) and value.right is use
        and ast.unparse(value.left) == ast.unparse(statement.targets[0])
    )


def always_runs(statement: ast.stmt, module: Module) -> bool:
    """Below nothing but tests for a device."""
    for parent in ancestors(statement):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            return True
        if not isinstance(parent, ast.If) or truth(parent.test, module) is not True or statement not in parent.body:
            return False
        statement = parent
    return False
