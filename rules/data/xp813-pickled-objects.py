"""Files that hold objects of classes, which `weights_only=True` refuses."""

import ast

from xlaport.analysis import checkpoints
from xlaport.analysis.values import Kind, constant, guess_by_name
from xlaport.ruleset.api import Context, syntax

OBJECTS = Kind.MODULE | Kind.OPTIMIZER


def check(context: Context):
    keys = None
    for call in context.calls("torch.load"):
        names = {keyword.arg for keyword in call.keywords}
        if names & {"weights_only", None} or are_named(context, call) or syntax.is_dead(call):
            continue
        uses = list(checkpoints.uses_of_loaded(call, context.module))
        if any(map(checkpoints.is_used_as_module, uses)) or unpacks_objects(call):
            yield finding_for(context, call, "the file holds a whole object, which torch.load refuses since 2.6")
            continue
        taken = {key for use in uses for key in keys_taken(use)}
        if taken and keys is None:
            keys = checkpoints.keys_with_objects(context.module, context.project)
        if taken and taken & keys:
            yield finding_for(context, call, "the checkpoint holds the program's options or a whole module, which torch.load refuses since 2.6")


def are_named(context: Context, call: ast.Call) -> bool:
    """Below `with torch.serialization.safe_globals([...])`, or in a file that adds classes to the safe ones."""
    if "add_safe_globals(" in context.module.source.text:
        return True
    return any(
        isinstance(item.context_expr, ast.Call) and context.refers(item.context_expr.func, "torch.serialization.safe_globals")
        for parent in syntax.ancestors(call) if isinstance(parent, (ast.With, ast.AsyncWith)) for item in parent.items
    )


def finding_for(context: Context, call: ast.Call, message: str):
    return context.finding(call, message, context.edit_call(call, weights_only="False"), is_idiom=False)


def unpacks_objects(call: ast.Call) -> bool:
    """`model, criterion, optimizer = torch.load(f)`."""
    statement = call.parent
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return False
    return any(guess_by_name(getattr(part, "id", "")) & OBJECTS for part in statement.targets[0].elts)


def keys_taken(use: ast.expr):
    """`checkpoint["model"]`, `"model" in checkpoint`, `checkpoint.get("model")`."""
    parent = use.parent
    if isinstance(parent, ast.Subscript) and parent.value is use:
        yield constant(parent.slice)
    elif isinstance(parent, ast.Compare) and use in parent.comparators:
        yield constant(parent.left)
    elif isinstance(parent, ast.Attribute) and parent.attr in {"get", "pop"} and isinstance(parent.parent, ast.Call) and parent.parent.args:
        yield constant(parent.parent.args[0])
