"""Batches whose shape is that of their longest example."""

import ast
from collections.abc import Iterator

from xlaport.analysis.values import constant, last_name
from xlaport.ruleset.api import Confidence, Context, syntax

COLLATORS = tuple(
    f"transformers.{prefix}{name}"
    for name in ("DataCollatorWithPadding", "DataCollatorForSeq2Seq", "DataCollatorForTokenClassification", "DataCollatorForMultipleChoice")
    for prefix in ("", "data.data_collator.")
)
"""They pad to the longest example unless told otherwise (transformers 4.57)."""

MAKERS = frozenset({"zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "pad"})
"""Of torch and of NumPy; `pad` is also `F.pad`."""

ROUNDED = (ast.FloorDiv, ast.Mod)
CALLED_DEEP = 2


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls(*COLLATORS):
        if not syntax.is_dead(call) and not is_told_a_length(call):
            yield context.finding(call, is_idiom=False)
    for function in collating(context):
        for call in padding_calls(context, function):
            yield context.finding(call, is_idiom=False, confidence=Confidence.LIKELY)


def is_told_a_length(call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    padding = given.get("padding", call.args[1] if len(call.args) > 1 else None)
    return None in given or "pad_to_multiple_of" in given or padding is not None and constant(padding) not in (True, "longest")


def collating(context: Context) -> list[ast.FunctionDef]:
    """Functions and methods that collate by their name or their class's, those given as `collate_fn=`, and what they call here."""
    functions = list(context.facts.of(*syntax.FUNCTIONS))
    by_name = {function.name: function for function in functions}
    given = {last_name(item.value) for item in context.facts.of(ast.keyword) if item.arg == "collate_fn"}
    found = [function for function in functions if function.name in given or says_collate(function) or is_collator(function)]
    for _ in range(CALLED_DEEP):
        called = {last_name(node.func) for function in found for node in ast.walk(function) if isinstance(node, ast.Call)}
        found += [by_name[name] for name in sorted(called & by_name.keys()) if by_name[name] not in found]
    return found


def says_collate(function: ast.FunctionDef) -> bool:
    return "collate" in function.name.lower()


def is_collator(function: ast.FunctionDef) -> bool:
    owner = function.parent
    return function.name == "__call__" and isinstance(owner, ast.ClassDef) and "collat" in owner.name.lower()


def padding_calls(context: Context, function: ast.FunctionDef) -> Iterator[ast.Call]:
    longest = names_of_longest(function)
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or syntax.is_dead(call):
            continue
        if "torch.nn.utils.rnn.pad_sequence" in context.names.qualified(call.func) and not pads_again(function):
            yield call
        elif any(item.arg == "padding" and constant(item.value) in (True, "longest") for item in call.keywords) and not is_told_a_length(call):
            yield call
        elif last_name(call.func) in MAKERS and any(is_longest(value, longest) for value in sizes(call)):
            yield call


def pads_again(function: ast.FunctionDef) -> bool:
    """To a length of its own choice, presumably."""
    return any(isinstance(node, ast.Call) and last_name(node.func) == "pad" for node in ast.walk(function))


def sizes(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords if keyword.arg in {"size", "shape", "pad", "pad_width"})


def names_of_longest(function: ast.FunctionDef) -> set[str]:
    """Names that hold the largest of the examples' sizes, or are made from one."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None and is_longest(node.value, found):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def is_longest(node: ast.expr, known: set[str]) -> bool:
    """`max(len(x) for x in items)`, `max_by_axis(sizes)`, or a name known to be that; not one rounded up to a few lengths."""
    inner = list(ast.walk(node))
    if any(isinstance(part, ROUNDED) for part in inner) or any(is_rounding(part) for part in inner):
        return False
    return any(isinstance(part, ast.Name) and part.id in known or isinstance(part, ast.Call) and is_maximum(part) for part in inner)


def is_rounding(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(word in last_name(node.func).lower() for word in ("ceil", "round", "bucket", "bisect", "next"))


def is_maximum(call: ast.Call) -> bool:
    """The builtin over examples, or a function that says it takes one; `max(x, 1)` of two numbers is neither."""
    name = last_name(call.func).lower()
    if name == "max" and isinstance(call.func, ast.Name):
        return len(call.args) == 1 and constant(call.args[0]) is None
    return "max" in name.split("_") and not isinstance(call.func, ast.Attribute)
