"""`MpDeviceLoader(loader, device)`: the loader itself, with batches moved at the top of the loop."""

import ast

from xlaport.ruleset.api import Context, syntax

LOADER = "torch_xla.distributed.parallel_loader.MpDeviceLoader"


def check(context: Context):
    for call in context.calls(LOADER):
        if syntax.is_dead(call) or len(call.args) < 2:
            continue
        loops = loops_over(context, call)
        if not loops or not all(map(names_of, loops)):
            yield context.finding(call, "moves its batches to the device: iterate over the loader itself, and move what a batch holds at the top of the loop")
            continue
        ops = context.replace(call, "{loader}", loader=call.args[0])
        for loop in loops:
            names = names_of(loop)
            line = ", ".join(names) + " = " + ", ".join(f"{name}.to({{given}})" for name in names)
            ops += context.insert(loop.body[0], "before", line, given=call.args[1])
        yield context.finding(call, ops=ops)


def loops_over(context: Context, call: ast.Call) -> list[ast.For]:
    """The loops that go through the loader, by itself, by its name or enumerated; none where it is used otherwise."""
    if isinstance(call.parent, ast.Assign) and len(call.parent.targets) == 1 and isinstance(call.parent.targets[0], ast.Name):
        name = call.parent.targets[0].id
        scope = syntax.enclosing_scope(call)
        uses = [n for n in context.facts.of(ast.Name) if n.id == name and isinstance(n.ctx, ast.Load) and syntax.enclosing_scope(n) is scope]
        found = [loop_of(use) for use in uses if not is_counted(use)]
        return [] if None in found else found
    loop = loop_of(call)
    return [loop] if loop is not None else []


def loop_of(node: ast.expr) -> ast.For | None:
    around = node.parent
    if is_call_of(around, "enumerate") and around.args[0] is node:
        node, around = around, around.parent
    return around if isinstance(around, ast.For) and around.iter is node else None


def is_counted(use: ast.Name) -> bool:
    return is_call_of(use.parent, "len")


def is_call_of(node: ast.AST, builtin: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == builtin


def names_of(loop: ast.For) -> list[str]:
    """The names a batch is taken apart into; none where it stays one value, of whatever structure."""
    target = loop.target
    if is_call_of(loop.iter, "enumerate"):
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    return [part.id for part in parts] if all(isinstance(part, ast.Name) for part in parts) else []
