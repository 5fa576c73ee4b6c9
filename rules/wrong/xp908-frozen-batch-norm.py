"""BatchNorm layers in evaluation mode, through which gradients go."""

import ast
import re
from collections.abc import Iterator

from xlaport.analysis.training import turns_gradients_off
from xlaport.ruleset.api import Confidence, Context, Severity, syntax

BATCH_NORM = re.compile(r"BatchNorm")
FREEZES = re.compile(r"requires_grad_?\s*(=|\()\s*False")
LAYERS = tuple(f"torch.nn.{kind}" for kind in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))


def check(context: Context):
    if not context.on_device or not context.project.program_mentions(context.module.source.path, BATCH_NORM):
        return
    for call in context.calls_of_method("eval"):
        if call.args or call.keywords:
            continue
        if is_layer(context, call.func.value):
            if trains(context):
                yield context.finding(call, is_idiom=False)
        elif may_normalise(context, call.func.value) and gradients_follow(context, call):
            yield context.finding(call, severity=Severity.WARNING, is_idiom=False, confidence=Confidence.LIKELY)


def trains(context: Context) -> bool:
    """A file that trains, or defines a model, which will be."""
    return bool(context.training.backward_calls) or any(function.name in {"forward", "train"} for function in context.facts.of(ast.FunctionDef))


def may_normalise(context: Context, model: ast.expr) -> bool:
    """Of a class of the project its text tells; a file that freezes parameters may stop gradients before the layers."""
    if FREEZES.search(context.module.source.text):
        return False
    found = context.values.class_of_instance(model)
    return found is None or BATCH_NORM.search(ast.unparse(found[0])) is not None


def is_layer(context: Context, node: ast.expr) -> bool:
    """A layer by what made it, or by a test around it: `if isinstance(m, nn.BatchNorm2d)`, `if "BatchNorm" in name`."""
    if any(name in LAYERS for name in context.values.constructors(node)):
        return True
    if not isinstance(node, ast.Name):
        return False
    return any(isinstance(parent, ast.If) and BATCH_NORM.search(ast.unparse(parent.test)) for parent in syntax.ancestors(node))


def gradients_follow(context: Context, call: ast.Call) -> bool:
    """Does the model run, and a backward pass follow, before it is told to train again? Later statements of the block are looked at."""
    model = ast.unparse(call.func.value)
    has_run = False
    for node in (node for later in syntax.following(syntax.statement_of(call)) for node in in_order(context, later)):
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func) == model:
            has_run = True
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "train" and ast.unparse(node.func.value) == model:
            return False
        elif node in context.training.backward_calls:
            return has_run
    return False


def in_order(context: Context, node: ast.AST) -> Iterator[ast.AST]:
    """Arguments before the call they are given to; blocks and functions without gradients are left out."""
    if isinstance(node, ast.With) and any(turns_gradients_off(item.context_expr, context.names) for item in node.items):
        return
    if isinstance(node, syntax.FUNCTIONS):
        return
    for child in ast.iter_child_nodes(node):
        yield from in_order(context, child)
    yield node
