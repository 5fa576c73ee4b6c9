"""`mp.spawn(worker, nprocs=n, args=...)`, and processes that a loop starts one by one."""

import ast
import re

from xlaport.ruleset.api import Context, Mode, syntax

GROUP = re.compile(r"init_process_group")
JOINS = (
    'no worker joins a process group: RANK, LOCAL_RANK and WORLD_SIZE into its environment, then torch.distributed.init_process_group("{dist_backend}")'
)


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"):
        if syntax.is_dead(call) or not (call.args or any(k.arg == "fn" for k in call.keywords)):
            continue
        if context.mode is Mode.KEEP:
            continue
        yield context.finding(call, ops=launched(context, call))
    yield from started_one_by_one(context)


PROCESSES = ("torch.multiprocessing.Process", "multiprocessing.Process")
STARTED = frozenset({"start", "append"})


def started_one_by_one(context: Context):
    """`for rank in range(n): p = mp.Process(target=worker, args=(rank, ...)); p.start()` in a program with replicas, or one whose
    processes join a group; others are workers of another kind, actors for one."""
    joins = context.mode is Mode.ONE and context.project.program_mentions(context.module.source.path, GROUP)
    if context.mode not in (Mode.MP, Mode.SPMD) and not joins:
        return
    for call in context.calls(*PROCESSES):
        loop, given = syntax.enclosing(call, ast.For), syntax.argument(call, "args", 3)
        target = syntax.argument(call, "target", 1)
        is_ranked = loop is not None and isinstance(given, ast.Tuple) and given.elts and ast.unparse(given.elts[0]) == ast.unparse(loop.target)
        if is_ranked and target is not None and not syntax.is_dead(call):
            yield context.finding(call, ops=in_place_of_loop(context, loop, target, given.elts[1:]) if only_starts(loop, call) else None)


def only_starts(loop: ast.For, call: ast.Call) -> bool:
    """Nothing in the loop but the process: made, started, kept in a list."""
    others = [statement for statement in loop.body if statement is not syntax.statement_of(call)]
    return not loop.orelse and all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr in STARTED
        for statement in others
    )


def in_place_of_loop(context: Context, loop: ast.For, target: ast.expr, rest: list[ast.expr]):
    holes = {"worker": target, **{f"argument{index}": value for index, value in enumerate(rest)}}
    names = [f"{{argument{index}}}" for index in range(len(rest))]
    if context.mode is Mode.SPMD:
        return context.replace_statement(loop, "{worker}(" + ", ".join(["0", *names]) + ")", **holes)
    tail = f", args=({', '.join(names)}{',' if len(names) == 1 else ''})" if names else ""
    return context.replace_statement(loop, "torch_xla.launch({worker}" + tail + ")", **holes)


def launched(context: Context, call: ast.Call):
    keywords = {item.arg: item.value for item in call.keywords}
    worker = call.args[0] if call.args else keywords["fn"]
    arguments = call.args[1] if len(call.args) > 1 else keywords.get("args")
    holes = {"worker": worker}
    if arguments is not None:
        holes["arguments"] = arguments
    if context.mode is Mode.SPMD:
        tail = ", *{arguments}" if arguments is not None else ""
        return context.replace(call, "{worker}(0" + tail + ")", **holes)
    tail = ", args={arguments}" if arguments is not None else ""
    return context.replace(call, "torch_xla.launch({worker}" + tail + ")", **holes)


SET_ENVIRONMENT = "torch.tpu.distributed.set_tpu_launch_env"


def check_torchtpu(context: Context):
    """`mp.spawn` stays; the parent sets what a TPU job needs, and touches no device."""
    if not context.on_device:
        return
    for call in context.calls("torch.multiprocessing.spawn"):
        statement, count = syntax.statement_of(call), syntax.argument(call, "nprocs", 2)
        method = syntax.argument(call, "start_method")
        if syntax.is_dead(call):
            continue
        if method is not None and not (isinstance(method, ast.Constant) and method.value == "spawn"):
            yield context.finding(method, "a TPU may not be touched in a forked process", context.replace(method, '"spawn"'))
        if not context.project.program_mentions(context.module.source.path, GROUP):
            yield context.finding(call, JOINS)
        if not isinstance(statement, ast.Expr) or sets_environment(context, statement):
            continue
        template, holes = (f"{SET_ENVIRONMENT}(nproc_per_node={{count}})", {"count": count}) if count is not None else (f"{SET_ENVIRONMENT}()", {})
        yield context.finding(call, ops=context.insert(statement, "before", template, **holes))


def sets_environment(context: Context, statement: ast.stmt) -> bool:
    block = syntax.block_of(statement)
    return any(context.refers(getattr(getattr(other, "value", None), "func", None), SET_ENVIRONMENT) for other in block[: block.index(statement)])
