"""What a program does with gradients between their computation and the step that uses them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from xlaport.analysis.facts import FUNCTIONS, block_of, enclosing_function, enclosing_loops, is_called, is_dead, nodes_run, own_nodes, statement_of
from xlaport.analysis.project import Module
from xlaport.analysis.training import Step, Training, training_of
from xlaport.analysis.values import Kind, Values, argument_for, last_name

CLIPS = frozenset({
    "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grads_with_norm_",
    "timm.utils.dispatch_clip_grad", "timm.utils.adaptive_clip_grad",
})
REDUCTIONS = frozenset({"all_reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather", "all_gather_into_tensor", "reduce_gradients"})
BACKWARD = frozenset({"backward", "manual_backward"})
CLEARS = frozenset({"zero_", "detach_", "requires_grad_"})
DESCRIBES = frozenset({"shape", "dtype", "device", "layout", "is_sparse", "size", "numel", "dim", "ndim"})
SPEAKS_OF_GRADIENTS = re.compile(r"\.grad\b|clip_grad|\.backward\(")
STEPS = re.compile(r"\.step\(")
ACCUMULATES = re.compile(r"\bno_sync\b|require_backward_grad_sync|sync_gradients|set_to_none\s*=\s*False|zero_grad\(\s*False|accum|need_update|update_freq")
"""Text of a program that adds gradients to those that are there."""

DEEPEST = 3
"""Calls of functions of the project that are followed."""

Place = tuple[ast.stmt, str]
"""A statement, and whether gradients are to be averaged `before` or `after` it."""

Test = Callable[[ast.AST, Values], bool]


def step_at(call: ast.Call, optimizer: ast.expr, ends_iteration: bool = True) -> Step:
    """A step that is written another way than `optimizer.step()`."""
    return Step(call, optimizer, None, next(enclosing_loops(call), None), ends_iteration)


def averaged_at(training: Training, step: Step, is_use: Test) -> list[Place]:
    """Where gradients are to be averaged that the program uses before a step; nowhere when only the step does."""
    statement, found = statement_of(step.call), []
    while True:
        block = block_of(statement)
        used, is_computed = before_use(training, block[: block.index(statement)], is_use)
        found = used or found
        parent = statement.parent
        if is_computed or parent is step.loop or not isinstance(parent, (ast.If, ast.With, ast.Try)):
            return found
        statement = parent


def before_use(training: Training, block: list[ast.stmt], is_use: Test) -> tuple[list[Place], bool]:
    """The first use behind the last computation of gradients in a block, and whether it computes any."""
    found: list[Place] = []
    for statement in reversed(block):
        if does(training, statement, is_backward):
            return inside(training, statement, is_use) or found, True
        if does(training, statement, is_use):
            found = [(statement, "before")]
    return found, False


def inside(training: Training, statement: ast.stmt, is_use: Test) -> list[Place]:
    """Where one statement computes gradients and uses them; each branch of an `if` averages when one does."""
    if isinstance(statement, (ast.With, ast.Try)):
        return before_use(training, statement.body, is_use)[0]
    if not isinstance(statement, ast.If):
        return []
    branches = [(branch, before_use(training, branch, is_use)[0]) for branch in (statement.body, statement.orelse) if branch]
    if not any(places for _, places in branches):
        return []
    return [place for branch, places in branches for place in places or after(branch)]


def after(branch: list[ast.stmt]) -> list[Place]:
    return [] if isinstance(branch[-1], (ast.Return, ast.Continue, ast.Break, ast.Raise)) else [(branch[-1], "after")]


# -- sums of several backward passes


def may_accumulate(training: Training, step: Step, ends: Sequence[ast.Call]) -> bool:
    """May a gradient be the sum of several backward passes, or be added to one that was cleared and kept? `ends`: calls that end a step, this one's too."""
    values = training.values
    if values.project.program_mentions(values.path, ACCUMULATES):
        return True
    if step.loop is None:
        return False
    passes = most(step.loop.body, lambda statement: does(training, statement, is_backward))
    made = most(step.loop.body, lambda statement: holds(statement, ends))
    return passes > made or passes > 0 and is_sometimes(training, step, ends)


def holds(statement: ast.stmt, calls: Sequence[ast.Call]) -> bool:
    return any(node is call for call in calls for node in ast.walk(statement))


def most(block: list[ast.stmt], counts: Callable[[ast.stmt], bool]) -> int:
    """Statements that count on the path with most of them; a loop is taken for two rounds."""
    total = 0
    for statement in block:
        if isinstance(statement, ast.If):
            total += max(most(statement.body, counts), most(statement.orelse, counts))
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            total += most(statement.body, counts)
        elif isinstance(statement, ast.Try):
            total += most([*statement.body, *statement.orelse, *statement.finalbody], counts)
        elif isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            total += 2 * most(statement.body, counts)
        else:
            total += counts(statement)
    return total


def is_sometimes(training: Training, step: Step, ends: Sequence[ast.Call]) -> bool:
    """Is the step under a condition that gradients are not computed under, and no other branch steps?"""
    child, parent = statement_of(step.call), statement_of(step.call).parent
    while parent is not None and parent is not step.loop:
        if isinstance(parent, ast.If):
            others = parent.orelse if child in parent.body else parent.body
            if not any(holds(statement, ends) for statement in others) and not any(is_backward(node, training.values) for node in ast.walk(parent)):
                return True
        child, parent = parent, parent.parent
    return False


# -- uses


def is_clip(node: ast.AST, values: Values) -> bool:
    """A function of torch, or the method of a model in torch FSDP."""
    if not isinstance(node, ast.Call):
        return False
    names, func = values.names.qualified(node.func), node.func
    is_method = isinstance(func, ast.Attribute) and func.attr == "clip_grad_norm_" and not names and Kind.MODULE in values.guess(func.value)
    return is_method or not CLIPS.isdisjoint(names)


def is_use(node: ast.AST, values: Values) -> bool:
    """A clip, or `.grad` read or changed; not one that is asked about, cleared or set."""
    if is_clip(node, values):
        return True
    if not isinstance(node, ast.Attribute) or node.attr != "grad" or is_called(node) or values.names.qualified(node):
        return False
    if not isinstance(node.ctx, ast.Load):
        return isinstance(node.parent, ast.AugAssign)
    parent = node.parent
    if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Is, ast.IsNot)):
        return False
    while isinstance(parent, ast.Attribute) and parent.attr == "data":
        parent = parent.parent
    return not (isinstance(parent, ast.Attribute) and parent.attr in CLEARS | DESCRIBES)


def is_backward(node: ast.AST, values: Values) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BACKWARD and not values.names.qualified(node.func)


def is_reduction(node: ast.AST, values: Values) -> bool:
    """A call that brings gradients of other replicas: what it is given speaks of them, or is made of what does."""
    if not isinstance(node, ast.Call) or not any(name.rpartition(".")[2] in REDUCTIONS for name in values.names.qualified(node.func)):
        return False
    given = [origin for argument in node.args for origin in (argument, *values.origins(argument))]
    return last_name(node.func) == "reduce_gradients" or any("grad" in ast.unparse(value) for value in given)


def does(training: Training, statement: ast.stmt, test: Test) -> bool:
    """Does a statement, or a function of the project it calls? Those that step are an iteration of their own."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) or any(node is step.call for step in training.steps for node in ast.walk(statement)):
        return False
    return any(test(node, values) for node, values in reached(statement, training.values, DEEPEST))


def reached(statement: ast.AST, values: Values, depth: int) -> Iterator[tuple[ast.AST, Values]]:
    """The nodes that run with a statement, each with the values of its module."""
    for node in running(statement):
        yield node, values
        if isinstance(node, ast.Call) and depth:
            for body, owner in called(node, values):
                yield from reached(body, owner, depth - 1)


def running(root: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a statement or of a function's body."""
    return own_nodes(root) if isinstance(root, FUNCTIONS) else nodes_run([root])


def called(call: ast.Call, values: Values) -> Iterator[tuple[ast.AST, Values]]:
    """What of the project a call runs. Other files are read only for functions whose text speaks of gradients."""
    func = call.func
    if isinstance(func, ast.Name):
        for binding in values.names.bindings(func):
            if isinstance(binding.value, ast.Lambda):
                yield binding.value.body, values
    is_own = isinstance(func, ast.Name) and any(binding.how == "function" for binding in values.names.bindings(func))
    speaking = values.project.functions_with(SPEAKS_OF_GRADIENTS)
    if is_own or last_name(func) in speaking:
        yield from (found for found in values.functions_called(call) if not steps(found[0]))
    made = values.class_of_instance(func) if "__call__" in speaking else None
    for method in made[0].body if made else ():
        if getattr(method, "name", "") == "__call__" and not steps(method):
            yield method, made[1]


def stepping_calls(module: Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls of functions of the project that only step, with what the caller calls the optimizer."""
    training = training_of(module)
    for name in module.values.project.functions_with(STEPS):
        for call in module.values.calls_by_last_name.get(name, ()):
            for function, owner in module.values.functions_called(call) if not is_dead(call) else ():
                home = module.values.project.parsed(owner.path)
                for step in training_of(home).steps if home else ():
                    optimizer = as_caller_says(step.optimizer, function, call, owner is module.values) if enclosing_function(step.call) is function else None
                    if optimizer is not None and not any(is_backward(node, owner) or is_use(node, owner) for node in running(function)):
                        yield call, optimizer


def as_caller_says(node: ast.expr, function: ast.AST, call: ast.Call, is_own: bool) -> ast.expr | None:
    """A parameter, an attribute of `self` or a name of the same file, in the words of the caller."""
    is_method = isinstance(function.parent, ast.ClassDef)
    if isinstance(node, ast.Name):
        parameter = next((item for item in function.args.args if item.arg == node.id), None)
        return argument_for(function, parameter, call, is_method) if parameter else node if is_own else None
    is_of_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self" and is_method
    has_owner = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, (ast.Name, ast.Attribute))
    return ast.Attribute(call.func.value, node.attr, ast.Load()) if is_of_self and has_owner else None


def steps(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node.func) in {"step", "optimizer_step"} for node in running(function))
