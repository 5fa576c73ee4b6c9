"""`torch.save` of what lives on the device."""

import ast
import re

from xlaport.analysis.checkpoints import Written
from xlaport.analysis.values import last_name, reaching
from xlaport.ruleset import host_copies, one_rank
from xlaport.ruleset.api import Context, Mode, syntax

NOT_TAKEN = ("pickle_module", "pickle_protocol", "_use_new_zipfile_serialization", "_disable_byteorder_record")
"""Keywords `xm.save` does not have."""

SAVERS = frozenset({"torch.save", "torch_xla.core.xla_model.save"})
SAVING = re.compile(r"save(?:(?<=\btorch\.save)\b|(?<=\bth\.save)\b|(?<=\bxm\.save)\b|(?<=\bsave)\()")


def check(context: Context):
    if not context.on_device:
        return
    written = Written(context.module, context.project)
    synced: set[ast.If] = set()
    for call in context.calls("torch.save"):
        saved, target = arguments(call)
        if saved is None or is_memory(context, target) or syntax.is_dead(call) or written.whole_objects(saved):
            continue  # XP816 speaks of whole objects
        if written.holds_tensors(saved):
            ops = saved_from_host(context, call, saved, target) + nothing_pending(context, call, synced)
            yield context.finding(call, ops=ops)
    if context.mode is not Mode.ONE:
        yield from guarded_calls(context, synced)


def check_torchtpu(context: Context):
    """What is saved is moved to the host first; the process that saves is the program's choice already."""
    if not context.on_device:
        return
    written = Written(context.module, context.project)
    for call in context.calls("torch.save"):
        saved, target = arguments(call)
        if saved is None or is_memory(context, target) or syntax.is_dead(call) or written.whole_objects(saved):
            continue
        if is_moved(saved) or not written.holds_tensors(saved):
            continue
        ops = None if isinstance(saved, ast.Starred) else context.replace(saved, host_copies.NAME + "({saved})", saved=saved) + context.prelude(host_copies.PRELUDE)
        yield context.finding(call, ops=ops)


def is_moved(saved: ast.expr) -> bool:
    return isinstance(saved, ast.Call) and last_name(saved.func) == host_copies.NAME


def guarded_calls(context: Context, synced: set[ast.If]):
    """Calls, in one process only, of functions that save."""
    saving = context.project.functions_with(SAVING)
    called = context.values.calls_by_last_name
    for call in (call for name in saving & called.keys() for call in called[name]):
        guard = rank_guard(context, call)
        if guard is None or guard in synced or one_rank.follows_sync(context, guard) or syntax.is_dead(call):
            continue
        if any(saves_file(function, values.names) for function, values in context.values.functions_called(call)):
            ops = nothing_pending(context, call, synced)
            yield context.finding(call, "xm.save starts what is pending, here in one process only", ops)


def saves_file(function: ast.AST, names) -> bool:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    in_memory = any("io.BytesIO" in names.qualified(call.func) for call in calls)
    return not in_memory and any(SAVERS.intersection(names.qualified(call.func)) for call in calls)


def arguments(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    saved = call.args[0] if call.args else given.get("obj")
    target = call.args[1] if len(call.args) > 1 else given.get("f")
    return saved, target


def saved_from_host(context: Context, call: ast.Call, saved: ast.expr, target: ast.expr | None):
    ops = context.replace(call.func, "xm.save")
    everywhere = {"master_only": "False"} if target is not None and is_written_here(context, call, target) else {}
    if target is not None and any(keyword.arg in {"obj", "f"} for keyword in call.keywords):
        given = "".join(f", {name}={value}" for name, value in everywhere.items())
        return context.replace(call, "xm.save({saved}, {target}" + given + ")", saved=saved, target=target)
    if everywhere or any(keyword.arg in NOT_TAKEN for keyword in call.keywords):
        ops += context.edit_call(call, remove=NOT_TAKEN, **everywhere)
    return ops


def is_written_here(context: Context, call: ast.Call, target: ast.expr) -> bool:
    """In whichever process comes here, not in the first alone: its own file, or one that another rank writes."""
    if is_own_file(context, target):
        return True
    return context.mode is not Mode.ONE and (one_rank.lets_others_in(context.values, call) or is_called_elsewhere(context, call))


def is_called_elsewhere(context: Context, call: ast.Call) -> bool:
    """Is the function that saves called by another process than the first?"""
    function = syntax.enclosing_function(call)
    return isinstance(function, syntax.FUNCTIONS) and any(
        one_rank.lets_others_in(module.values, other) for module, other in context.project.calls_of(context.module.source.path, function.name)
    )


def nothing_pending(context: Context, call: ast.Call, synced: set[ast.If]):
    """A sync of all processes before the `if` in which one of them saves."""
    guard = rank_guard(context, call) if context.mode is not Mode.ONE else None
    if guard is None or guard in synced:
        return []
    synced.add(guard)
    return one_rank.nothing_pending(context, guard)


def is_own_file(context: Context, target: ast.expr) -> bool:
    """A file name with the process's number in it."""
    return any(one_rank.names_rank(context.values, value) for value in values_of(context, target))


def is_memory(context: Context, target: ast.expr | None) -> bool:
    """Objects are written into memory to be sent or copied, by a process that reads them back itself."""
    return target is not None and any(
        isinstance(value, ast.Call) and context.refers(value.func, "io.BytesIO") for value in values_of(context, target)
    )


def values_of(context: Context, node: ast.expr) -> list[ast.expr]:
    """An expression itself, or what a variable was given before."""
    if not isinstance(node, ast.Name):
        return [node]
    reached = reaching(context.names.bindings(node), node)
    return [binding.value for binding in reached if binding.how == "assign" and binding.value is not None]


def rank_guard(context: Context, call: ast.Call) -> ast.If | None:
    """Before it, no process saves yet."""
    guard = one_rank.outermost_guard(context.values, call)
    return one_rank.head_of(guard) if guard else None
