"""Training loaders whose last batch may be shorter."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

TRAINS = re.compile(r"train", re.IGNORECASE)
EVALUATES = re.compile(r"(^|_|\.)(val|valid|validation|test|eval|dev|query|gallery)", re.IGNORECASE)


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls("torch.utils.data.DataLoader"):
        if not syntax.is_dead(call) and has_batches(call) and trains(call):
            yield context.finding(call, ops=context.edit_call(call, drop_last="True"), is_idiom=False)


def has_batches(call: ast.Call) -> bool:
    """Batches of a size above one, whose last one is not spoken of."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in given or "drop_last" in given or "batch_sampler" in given or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    size = call.args[1] if len(call.args) > 1 else given.get("batch_size")
    return size is not None and constant(size) not in (1, None) or isinstance(size, (ast.Name, ast.Attribute, ast.BinOp, ast.Subscript))


def trains(call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    names = [target_of(call), *(ast.unparse(given[key]) for key in ("dataset", "sampler") if key in given)]
    names += [ast.unparse(argument) for argument in call.args[:1]]
    if any(EVALUATES.search(name) for name in names):
        return False
    shuffle = given.get("shuffle", call.args[2] if len(call.args) > 2 else None)
    return constant(shuffle) is True or any(TRAINS.search(name) for name in names)


def target_of(call: ast.Call) -> str:
    """The variable a loader is assigned to, or the function that returns it."""
    for parent in syntax.ancestors(call):
        if isinstance(parent, ast.Assign):
            return ast.unparse(parent.targets[0])
        if isinstance(parent, syntax.FUNCTIONS):
            return parent.name
    return ""
