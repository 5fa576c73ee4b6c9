"""Moving a module to XLA replaces its parameters: optimizers and tied weights hold the old ones."""

import ast
import re
from collections.abc import Iterator
from itertools import islice

from xlaport.analysis.project import Module
from xlaport.analysis.values import guess_by_name, last_name
from xlaport.ruleset.api import Context, Kind, syntax

PARAMETERS = frozenset({"parameters", "named_parameters"})
MOST_SOURCES = 8
"""Arguments and elements looked at, as many as calls for the kind of a value."""

FLAG = re.compile("set_swap_module_params_on_conversion")
PRELUDE = (
    "# Moving a module to {runtime} makes new parameters; swapping them in place keeps optimizers and tied weights attached.\n"
    "torch.__future__.set_swap_module_params_on_conversion(True)\n"
)
RECURRENT = re.compile(r"\b(LSTM|GRU|RNN)\(")
LOADS = re.compile(r"\bload_state_dict\(")
TIE = re.compile(
    r"^[ \t]*[\w.\[\]]+\.(weight|bias)\s*=\s*[\w.\[\]]+\.\1[ \t]*(#.*)?$|\btie_weights\(|\btie_word_embeddings|from_pretrained\(|\bregister_hook\(",
    re.MULTILINE,
)


def check(context: Context):
    if not context.on_device or is_set(context):
        return
    moves = [call for call in context.facts.of(ast.Call) if is_module_move(context, call) and not syntax.is_dead(call)]
    if not moves:
        return
    if ties_weights(context):
        yield context.finding(moves[0], "the program ties weights, and this move would untie them", swapping(context, moves))
        return
    for call in moves:
        reason = holds_old_parameters(context, call)
        if reason:
            yield context.finding(call, reason, swapping(context, moves))
            return


def swapping(context: Context, moves: list[ast.Call]):
    """The flag for the whole program; around the moves only where a recurrent layer later loads a state dict.

    With the flag set `load_state_dict` swaps too, and raises for LSTM, GRU and RNN, which hold weak references
    to their parameters (measured on torch 2.9).
    """
    path = context.module.source.path
    if not all(context.project.program_mentions(path, pattern) for pattern in (RECURRENT, LOADS)):
        return context.prelude(PRELUDE)
    comment, setting = PRELUDE.splitlines()
    ops = []
    for statement in dict.fromkeys(syntax.statement_of(call) for call in moves):
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)):
            ops += context.insert(statement, "before", f"{comment}\n{setting}\n")
            ops += context.insert(statement, "after", setting.replace("True", "False"))
    return ops or context.prelude(PRELUDE)


def is_set(context: Context) -> bool:
    path = context.module.source.path
    own, above = context.project.files.mask([path]), context.project.links.importers(path)
    return context.project.any_mentions(own | above, FLAG)


def ties_weights(context: Context) -> bool:
    path = context.module.source.path
    own, below = context.project.files.mask([path]), context.project.links.imported_by(path)
    return context.project.any_mentions(own | below, TIE)


def is_module_move(context: Context, call: ast.Call) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"cuda", "to"} or context.names.qualified(func):
        return False
    arguments = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
    if func.attr == "to" and all(is_dtype(context, argument) for argument in arguments):
        return False
    return is_module(context, func.value)


def is_dtype(context: Context, node: ast.expr) -> bool:
    """By its name where that tells: which callers pass a `device` may take many other files."""
    named = guess_by_name(last_name(node)) & (Kind.DEVICE | Kind.DTYPE)
    return Kind.DTYPE in (named or context.values.kind(node))


def is_module(context: Context, node: ast.expr) -> bool:
    """By evidence or name; a value nothing is known of, by what callers pass for it."""
    guess = context.values.guess(node)
    if guess:
        return Kind.MODULE in guess
    return any(is_module_there(module, value) for module, value in islice(sources(context, node), MOST_SOURCES))


def is_module_there(module: Module, value: ast.expr) -> bool:
    if Kind.MODULE in module.values.guess(value):
        return True
    name = ast.unparse(value)
    return isinstance(value, (ast.Name, ast.Attribute)) and any(
        isinstance(call.func, ast.Attribute) and call.func.attr in PARAMETERS and ast.unparse(call.func.value) == name
        for call in module.facts.of(ast.Call)
    )


def sources(context: Context, node: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    """What a name may stand for: the arguments of a parameter, the elements a loop goes through."""
    for binding in context.names.bindings(node) if isinstance(node, ast.Name) else ():
        if binding.how == "parameter":
            yield from context.values.arguments_of(binding.node)
        elif binding.how == "loop":
            yield from elements(context, binding.node.iter)


def elements(context: Context, source: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    if isinstance(source, (ast.List, ast.Tuple)):
        yield from ((context.module, item) for item in source.elts)
    for binding in context.names.bindings(source) if isinstance(source, ast.Name) else ():
        if binding.how == "parameter":
            yield from passed_elements(context, binding.node)


def passed_elements(context: Context, parameter: ast.arg) -> Iterator[tuple[Module, ast.expr]]:
    """For `*things` the arguments themselves; for `things` the elements of a list that is passed."""
    function = parameter.parent.parent
    if parameter.parent.vararg is not parameter:
        for module, value in context.values.arguments_of(parameter):
            yield from ((module, item) for item in getattr(value, "elts", ()))
    elif isinstance(function, ast.FunctionDef):
        first = len(function.args.args) - isinstance(function.parent, ast.ClassDef)
        for module, call in context.project.calls_of(context.module.source.path, function.name):
            yield from ((module, argument) for argument in call.args[first:])


def holds_old_parameters(context: Context, call: ast.Call) -> str:
    """Why something may hold the parameters this move replaces; empty when it is made after the move."""
    module = call.func.value
    if isinstance(module, ast.Call):
        return ""  # `Net().to(device)`: nothing can hold a parameter yet
    names = [ast.unparse(module), *(ast.unparse(item) for item in listed(context, module))]
    scope = syntax.enclosing_scope(call)
    for other in context.facts.of(ast.Call):
        is_before = syntax.enclosing_scope(other) is scope and other.lineno < call.lineno
        if is_before and any(takes_parameters_of(other, name) for name in names):
            return "an optimizer made before this move would train nothing"
    if is_given(context, module):
        return "an optimizer made by the caller before this move would train nothing"
    return ""


def listed(context: Context, module: ast.expr) -> list[ast.expr]:
    """`[a, b]` of `for net in [a, b]: net.to(device)`."""
    loops = [binding.node for binding in context.names.bindings(module) if binding.how == "loop"] if isinstance(module, ast.Name) else []
    return [item for loop in loops if isinstance(loop.iter, (ast.List, ast.Tuple)) for item in loop.iter.elts]


def takes_parameters_of(call: ast.Call, name: str) -> bool:
    """`X.parameters()`, `X.named_parameters()` or `X.configure_optimizers(...)`."""
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and (func.attr in PARAMETERS or "optimizer" in func.attr)
        and (ast.unparse(func.value) == name or ast.unparse(func.value).startswith(name + "."))
        and not looks_only(call)
    )


def looks_only(call: ast.Call) -> bool:
    """`for p in model.parameters(): p.requires_grad = False`, `next(model.parameters()).device`: no parameter is held after it."""
    parent = call.parent
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "next":
        return isinstance(parent.parent, ast.Attribute)
    if not isinstance(parent, (ast.For, ast.comprehension)) or parent.iter is not call:
        return False
    targets = {node.id for node in ast.walk(parent.target) if isinstance(node, ast.Name)}
    scope = parent if isinstance(parent, ast.For) else parent.parent
    held = (node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id in targets and isinstance(node.ctx, ast.Load))
    return all(isinstance(node.parent, ast.Attribute) for node in held)


def is_given(context: Context, module: ast.expr) -> bool:
    """The module comes from outside this function: a parameter, or an attribute set elsewhere."""
    if isinstance(module, ast.Name):
        bindings = context.names.bindings(module)
        return bool(bindings) and all(
            binding.how == "parameter" or binding.how == "loop" and is_given(context, binding.node.iter) for binding in bindings
        )
    if isinstance(module, ast.Attribute) and isinstance(module.value, ast.Name) and module.value.id == "self":
        return not assigned_before(module)
    return False


def assigned_before(module: ast.Attribute) -> bool:
    function = syntax.enclosing_function(module)
    name = ast.unparse(module)
    return function is not None and any(
        isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets) and node.lineno <= module.lineno
        for node in ast.walk(function)
    )
