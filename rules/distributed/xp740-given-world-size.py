"""A number of processes that the parent makes of options, and the workers compute with."""

import ast
from collections.abc import Iterator

from xlaport.analysis import devices, workers
from xlaport.ruleset.api import Context, Mode, syntax


def check(context: Context):
    if context.mode is not Mode.MP or not devices.starts_processes(context.module, context.project):
        return
    counted = counted_places(context)
    done = set()
    for scope in dict.fromkeys(map(syntax.enclosing_scope, context.facts.of(ast.Call))):
        for call, start in workers.starts_in(scope, context.module).items():
            for name in totals(context, scope, start) if start is not None and call not in counted else ():
                if (start.worker, name) not in done and workers.is_read(name, start, context.module) and not is_asked(name, start):
                    done.add((start.worker, name))
                    yield context.finding(call, f"{name} is a number of processes that options say: the worker asks for it", asked(context, name, start))


def counted_places(context: Context) -> set[ast.Call]:
    """Starts of workers that are given a count of devices, of which XP109 speaks."""
    holders = [*workers.every_holder(context.module)]
    counts = [count for holder in holders for count in workers.carried(holder, context.module)]
    return {count.start.call for count in counts if count.start is not None and (count.totals or any(map(workers.ALL_RANKS.search, count.counts)))}


def totals(context: Context, scope: ast.AST, start: workers.Start) -> Iterator[str]:
    """The worker's names for the number of all processes: a parameter by that name, an attribute that the parent sets."""
    for name in start.given:
        if workers.ALL_RANKS.search(name):
            yield name
    for node in syntax.own_nodes(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute) and workers.ALL_RANKS.search(node.targets[0].attr):
            name = start.parameter_of(ast.unparse(node.targets[0]))
            if name is not None:
                yield name


def is_asked(name: str, start: workers.Start) -> bool:
    """Does the worker set it itself?"""
    return any(
        isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets) for node in syntax.own_nodes(start.worker)
    )


def asked(context: Context, name: str, start: workers.Start):
    group = workers.joining(start.worker, context.module)
    if group is None or not isinstance(group.parent, ast.Expr):
        return None
    return context.insert(group.parent, "after", f"{name} = {{world_size}}")
