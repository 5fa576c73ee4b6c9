"""Processes that are forked beside a TPU's runtime."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Severity, syntax

LOADER = "torch.utils.data.DataLoader"
METHODS = ("torch.multiprocessing.set_start_method", "multiprocessing.set_start_method", "torch.multiprocessing.get_context", "multiprocessing.get_context")


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls(*METHODS):
        method = syntax.argument(call, "method", 0)
        if not syntax.is_dead(call) and constant(method) in ("fork", "forkserver"):
            yield context.finding(call, "a TPU may not be touched in a forked process", context.replace(method, '"spawn"'), severity=Severity.ERROR)
    for call in context.calls(LOADER):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        workers = given.get("num_workers")
        if syntax.is_dead(call) or workers is None or None in given or constant(workers) == 0:
            continue
        context_given = given.get("multiprocessing_context")
        if context_given is not None:
            if constant(context_given) in ("fork", "forkserver"):
                yield context.finding(call, ops=context.replace(context_given, '"spawn"'))
        elif isinstance(workers, ast.Constant):
            yield context.finding(call, ops=context.edit_call(call, multiprocessing_context='"spawn"'))
        else:
            yield context.finding(call, 'forks its workers: multiprocessing_context="spawn" where there are any')
