"""`torch.cuda.device_count()`: how many devices, which on XLA has three answers."""

import ast

from xlaport.analysis import devices, workers
from xlaport.ruleset.api import Context, Danger, Mode, syntax


def check(context: Context):
    for call in context.calls(*devices.COUNTS):
        if syntax.is_dead(call) or devices.truth(call, context.module) is not None or in_known_test(context, call):
            continue
        if devices.runs_before_workers(call, context.module, context.project):
            yield before_workers(context, call)
        else:
            count = "{host_device_count}" if context.mode is Mode.MP else "{device_count}"
            yield context.finding(call, ops=context.replace(call, count))
    if context.mode is Mode.MP and devices.starts_processes(context.module, context.project):
        yield from not_followed(context)


def before_workers(context: Context, call: ast.Call):
    message = "asked before the workers start, where the TPU may not be touched: the worker asks itself"
    ops = context.replace(call, "1")
    holder = syntax.statement_of(call)
    if context.mode is Mode.MP and isinstance(holder, ast.Assign) and holder.value is call and len(holder.targets) == 1:
        counts = workers.carried(holder, context.module)
    else:
        counts = workers.handed_over(call, context.module) if context.mode is Mode.MP else []
    ops += dict.fromkeys(op for count in counts for op in asked_in_worker(context, count))
    return context.finding(call, message, ops)


def asked_in_worker(context: Context, count: workers.Carried):
    """The worker's own count in place of the one it is handed, and all that was computed from it."""
    if count.start is None:
        return []
    worker, ops = count.start.worker, []
    lines = [f"{name} = {{{'global' if workers.ALL_RANKS.search(name) else 'host'}_device_count}}" for name in count.counts]
    lines += [code for statement in count.repeated if count.counts and (code := count.start.in_worker(statement))]
    if not count.unsure:
        ops += [op for gate, branch in count.gates for op in context.unwrap(gate, branch)]
    group = workers.joining(worker, context.module)
    totals = [name for name in count.totals if workers.is_read(name, count.start, context.module)]
    if group is None:
        lines += [f"{name} = {{global_device_count}}" for name in totals]
    elif totals:
        ops += context.insert(syntax.statement_of(group), "after", "\n".join(f"{name} = {{world_size}}" for name in totals))
    if lines:
        ops += context.insert(*place(context, count, group), "# Asked here, since the parent may not touch the TPU: it counts one device.\n" + "\n".join(lines))
    for node in ast.walk(worker):
        if is_rank(node, count):
            ops += context.replace(node, "{rank}")
    return ops


def place(context: Context, count: workers.Carried, group: ast.Call | None) -> tuple[ast.stmt, str]:
    """After the worker joined its process group, unless it reads the count before; else where it begins."""
    worker = count.start.worker
    first = next((statement for statement in worker.body if not is_heading(statement)), worker.body[-1])
    if group is None:
        return first, "before"
    joined = workers.body_statement(group, worker)
    early = [
        node for statement in worker.body[:worker.body.index(joined) + 1] for node in ast.walk(statement)
        if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in count.counts
    ]
    if all(is_replaced(node, count, group) for node in early):
        return joined, "after"
    return first, "before"


def is_replaced(node: ast.AST, count: workers.Carried, group: ast.Call) -> bool:
    """Read for the rank, or to join the process group: both are asked of XLA."""
    return any(parent is group or is_rank(parent, count) for parent in syntax.ancestors(node))


def is_heading(statement: ast.stmt) -> bool:
    is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_docstring or isinstance(statement, (ast.Global, ast.Nonlocal))


def is_rank(node: ast.AST, count: workers.Carried) -> bool:
    """`args.rank * ngpus + gpu`: the worker is given its rank among all of them."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add) or not count.counts:
        return False
    for product, index in ((node.left, node.right), (node.right, node.left)):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and ast.unparse(index) == count.start.index:
            return any(ast.unparse(factor) in count.counts for factor in (product.left, product.right))
    return False


def not_followed(context: Context):
    """What the parent computes from a count of 1, and the workers would take for theirs."""
    for holder in workers.every_holder(context.module):
        for use in dict.fromkeys(use for count in workers.carried(holder, context.module) for use in count.unsure):
            yield context.finding(
                use, "computed before the workers start from a count that is 1 there: compute it in the worker, from xr.local_device_count()",
                danger=Danger.SILENT, is_idiom=False,
            )


def in_known_test(context: Context, call: ast.Call) -> bool:
    return isinstance(call.parent, ast.Compare) and devices.truth(call.parent, context.module) is not None


def check_torchtpu(context: Context):
    """Counted without starting the runtime, so a parent may ask before its workers start."""
    for call in context.calls(*devices.COUNTS):
        if not syntax.is_dead(call):
            yield context.finding(call, ops=context.replace(call, "{device_count}"))
