"""Training and evaluation loops: where an optimizer steps, and where an iteration ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from xlaport.analysis.facts import (
    FUNCTIONS, LOOPS, SCOPES, LoopNode, ModuleFacts, ancestors, enclosing_function, enclosing_loops, is_dead,
)
from xlaport.analysis.names import Names
from xlaport.analysis.values import Kind, Values, guess_by_name, last_name

if TYPE_CHECKING:
    from xlaport.analysis.project import Module

OPTIMIZER_MEMBERS = frozenset({"zero_grad", "param_groups", "add_param_group"})
FRAMEWORKS = ("accelerate.Accelerator", "lightning.", "pytorch_lightning.", "deepspeed.")
REMOTE = frozenset({"torch.distributed.optim.DistributedOptimizer"})
"""Its `step` takes the number of an autograd context, and the parameters live in other processes."""

GRADIENTS_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"})

NOT_OPTIMIZERS = Kind.SCHEDULER | Kind.SCALER | Kind.MODULE | Kind.TENSOR | Kind.OTHER | Kind.LOADER


@dataclass(frozen=True, eq=False)
class Step:
    """One place where an optimizer steps.

    `call` is `optimizer.step(...)` or `scaler.step(optimizer, ...)`. `ends_iteration` is True when no other
    step of the iteration can follow: the graph is launched there. Otherwise `loop` needs a sync at its end.
    """

    call: ast.Call
    optimizer: ast.expr
    scaler: ast.expr | None
    loop: LoopNode | None
    ends_iteration: bool


class Training:
    """Loops and steps of one module."""

    def __init__(self, facts: ModuleFacts, names: Names, values: Values):
        self.facts = facts
        self.names = names
        self.values = values

    @cached_property
    def backward_calls(self) -> list[ast.Call]:
        """`x.backward()` calls (`accelerator.backward(loss)` and `manual_backward` too)."""
        return [
            call for name in ("backward", "manual_backward") for call in self.values.calls_by_last_name.get(name, ())
            if isinstance(call.func, ast.Attribute)
            and not self.names.qualified(call.func)
            and not is_inside_autograd_function(call)
        ]

    @cached_property
    def members_used(self) -> set[str]:
        """Dotted texts on which something only an optimizer has is used in this file."""
        return {
            ast.unparse(node.value) for node in self.facts.of(ast.Attribute) if node.attr in OPTIMIZER_MEMBERS
        }

    @cached_property
    def stepped_by_scaler(self) -> set[str]:
        return {
            ast.unparse(call.args[0]) for name in ("step", "unscale_") for call in self.values.calls_by_last_name.get(name, ())
            if isinstance(call.func, ast.Attribute) and call.args
            and Kind.SCALER in self.values.guess(call.func.value)
        }

    def is_optimizer(self, node: ast.expr) -> bool:
        """Evidence first (constructor, annotation, call sites), then use, then the name."""
        if REMOTE.intersection(self.values.constructors(node)):
            return False
        kind = self.values.kind(node)
        if Kind.OPTIMIZER in kind:
            return True
        name = last_name(node.value if isinstance(node, ast.Subscript) else node)
        if kind & NOT_OPTIMIZERS and not (kind & Kind.OTHER and Kind.OPTIMIZER in guess_by_name(name)):
            return False
        text = ast.unparse(node)
        if text in self.stepped_by_scaler:
            return True
        guessed = guess_by_name(name)
        if guessed & (Kind.SCHEDULER | Kind.MODULE):
            return False
        return text in self.members_used or Kind.OPTIMIZER in guessed

    @cached_property
    def uses_framework(self) -> bool:
        """Accelerate, Lightning and the HF Trainer end steps themselves."""
        return any(
            name.startswith(prefix)
            for node in self.facts.of(ast.Import, ast.ImportFrom)
            for name in imported_names(node)
            for prefix in FRAMEWORKS
        )

    @cached_property
    def steps(self) -> list[Step]:
        found = [step for call in self.values.calls_by_last_name.get("step", ()) if (step := self._step_of(call)) is not None]
        return [self._with_end(step, found) for step in found]

    def _step_of(self, call: ast.Call) -> Step | None:
        func = call.func
        if not isinstance(func, ast.Attribute) or is_dead(call):
            return None
        loop = next(enclosing_loops(call), None)
        if call.args and Kind.SCALER in self.values.guess(func.value):
            return Step(call, call.args[0], func.value, loop, True)
        if len(call.args) > 1 or is_super(func.value) or not self.is_optimizer(func.value):
            return None
        return Step(call, func.value, None, loop, True)

    def _with_end(self, step: Step, steps: list[Step]) -> Step:
        scope = step.loop or enclosing_function(step.call) or self.facts.tree
        same = [other for other in steps if (other.loop or enclosing_function(other.call) or self.facts.tree) is scope]
        ends = not self._is_conditional(step, scope, same) and not any(
            is_after(other.call, step.call) and not exclusive(other.call, step.call) for other in same if other is not step
        )
        return Step(step.call, step.optimizer, step.scaler, step.loop, ends)

    def _is_conditional(self, step: Step, scope: ast.AST, same: list[Step]) -> bool:
        """Does the optimizer step in some iterations only, while gradients are computed in all?"""
        if not isinstance(scope, LOOPS):
            return False
        child: ast.AST = step.call
        for parent in ancestors(step.call):
            if parent is scope:
                return False
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                branch, other = branches(parent)
                if child not in branch:
                    branch, other = other, branch
                covered = any(contains_in(other, sibling.call) for sibling in same)
                trained_here = any(contains_in(branch, call) for call in self.backward_calls)
                trained_at_all = any(contains(scope, call) for call in self.backward_calls)
                if trained_at_all and not covered and not trained_here:
                    return True
                if trained_here and not covered and any(contains_in(other, call) for call in self.backward_calls):
                    return True  # micro-batches: the other branch computes gradients and does not step
                if trained_here and self._other_step_outside(parent, same) and not leaves_iteration(step.call):
                    return True
            child = parent
        return False

    def _other_step_outside(self, condition: ast.If | ast.IfExp, same: list[Step]) -> bool:
        """`if i % 5 == 0: g_loss.backward(); g_optimizer.step()` beside a step of every iteration."""
        return any(not contains(condition, other.call) for other in same)

    @cached_property
    def loops_without_end(self) -> list[LoopNode]:
        """Training loops whose iterations end with a sync: conditional steps, micro-batches."""
        found: dict[LoopNode, None] = {}
        for step in self.steps:
            if step.loop is not None and not self._some_step_ends(step.loop):
                found[step.loop] = None
        stepping = {step.loop for step in self.steps}
        for call in self.backward_calls:
            inner = next(enclosing_loops(call), None)
            if inner is not None and inner not in stepping and self._steps_follow(inner):
                found[inner] = None
        return list(found)

    def _some_step_ends(self, loop: LoopNode) -> bool:
        return any(step.ends_iteration and step.loop is loop for step in self.steps)

    def _steps_follow(self, loop: LoopNode) -> bool:
        """A loop of micro-batches: an optimizer steps after it in the loop or function around it."""
        outer = next(enclosing_loops(loop), None) or enclosing_function(loop) or self.facts.tree
        return any(contains(outer, step.call) and not contains(loop, step.call) for step in self.steps)

    @cached_property
    def evaluation_loops(self) -> list[LoopNode]:
        """Loops over batches without gradients that call a model: `with torch.no_grad(): for x, y in loader:`."""
        return [
            loop for loop in self.facts.of(ast.For)
            if self.without_gradients(loop) and (self._iterates_batches(loop) or self._counts_batches(loop))
            and not self._trains(loop) and self._calls_model(loop)
        ]

    @cached_property
    def batch_loops(self) -> list[ast.For]:
        """Loops over batches that call a model, with or without gradients; the step may be in a function they call."""
        return [loop for loop in self.facts.of(ast.For) if self._iterates_batches(loop) and self._calls_model(loop)]

    @cached_property
    def _blocks_without_gradients(self) -> list[ast.AST]:
        """`with torch.no_grad():`"""
        return [node for node in self.facts.of(ast.With, ast.AsyncWith) if any(turns_gradients_off(item.context_expr, self.names) for item in node.items)]

    def without_gradients(self, loop: ast.For) -> bool:
        """Inside `no_grad`/`inference_mode` (as context or decorator) or around it, or in a function that calls `.eval()` before."""
        around = list(ancestors(loop))
        function = next((parent for parent in around if isinstance(parent, FUNCTIONS)), None)
        own = around if function is None else around[:around.index(function)]
        if any(block in own or contains(loop, block) for block in self._blocks_without_gradients):
            return True
        if function is None:
            return False
        return any(turns_gradients_off(item, self.names) for item in function.decorator_list) or any(
            isinstance(call.func, ast.Attribute) and not call.args and call.lineno <= loop.lineno and contains(function, call)
            for call in self.values.calls_by_last_name.get("eval", ())
        )

    def _counts_batches(self, loop: ast.For) -> bool:
        """`for i in range(...)` in a function of the program that calls a model; not a module's own loop over layers."""
        owner = enclosing_class(loop)
        return last_name(getattr(loop.iter, "func", None)) == "range" and (
            owner is None or Kind.MODULE not in self.values.kind_of_class(owner, self.values)
        )

    def _iterates_batches(self, loop: ast.For) -> bool:
        return any(
            Kind.LOADER in self.values.guess(node)
            for node in ast.walk(loop.iter) if isinstance(node, (ast.Name, ast.Attribute))
        )

    def _trains(self, loop: ast.For) -> bool:
        return any(contains(loop, call) for call in self.backward_calls) or any(
            contains(loop, step.call) for step in self.steps
        )

    def _calls_model(self, loop: ast.For) -> bool:
        """A model is called in the loop itself, not only in a loop inside it."""
        return any(
            isinstance(node, ast.Call) and Kind.MODULE in self.values.guess(node.func)
            and next(enclosing_loops(node), None) is loop
            for statement in loop.body for node in ast.walk(statement)
        )


def turns_gradients_off(node: ast.expr, names: Names) -> bool:
    """`torch.no_grad()`, also without its parentheses."""
    return not GRADIENTS_OFF.isdisjoint(names.qualified(node.func if isinstance(node, ast.Call) else node))


def training_of(module: Module) -> Training:
    """Loops and steps of a module, found once for all who ask."""
    memo = module.values.memo
    if Training not in memo:
        memo[Training] = Training(module.facts, module.names, module.values)
    return memo[Training]


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        yield f"{alias.name}." if isinstance(node, ast.Import) else f"{node.module or ''}.{alias.name}"


def is_sync(node: ast.AST, names: Names) -> bool:
    """A statement that launches the graph: `torch_xla.sync()`, `xm.mark_step()`, `xm.optimizer_step(o, barrier=True)`."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    found = names.qualified(node.value.func)
    if "torch_xla.core.xla_model.optimizer_step" in found:
        return any(keyword.arg == "barrier" for keyword in node.value.keywords)
    return bool({"torch_xla.sync", "torch_xla.core.xla_model.mark_step"}.intersection(found))


def enclosing_class(node: ast.AST) -> ast.ClassDef | None:
    return next((parent for parent in ancestors(node) if isinstance(parent, ast.ClassDef)), None)


def is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "super"


def is_inside_autograd_function(node: ast.AST) -> bool:
    return any(
        isinstance(parent, ast.ClassDef) and any(last_name(base) == "Function" for base in parent.bases)
        for parent in ancestors(node)
    )


def contains(outer: ast.AST, node: ast.AST) -> bool:
    return outer is node or any(parent is outer for parent in ancestors(node))


def contains_in(block: list[ast.AST], node: ast.AST) -> bool:
    return any(contains(statement, node) for statement in block)


def is_after(first: ast.AST, second: ast.AST) -> bool:
    return (first.lineno, first.col_offset) > (second.lineno, second.col_offset)


def exclusive(first: ast.AST, second: ast.AST) -> bool:
    """In different branches of one `if`, or the first after a `continue`/`return` that closes the second's block."""
    for parent in ancestors(first):
        if isinstance(parent, (ast.If, ast.IfExp)) and contains(parent, second):
            body, orelse = branches(parent)
            if contains_in(body, first) and contains_in(orelse, second) or contains_in(orelse, first) and contains_in(body, second):
                return True
            break
    return leaves_iteration(second, first)


def branches(node: ast.If | ast.IfExp) -> tuple[list[ast.AST], list[ast.AST]]:
    return (node.body, node.orelse) if isinstance(node, ast.If) else ([node.body], [node.orelse])


def leaves_iteration(node: ast.AST, before: ast.AST | None = None) -> bool:
    """The `if` branch a node is in ends with `continue`, `return` or `raise`, before another node is reached."""
    child = node
    for parent in ancestors(node):
        if isinstance(parent, (*LOOPS, *SCOPES)):
            return False
        if isinstance(parent, ast.If):
            if before is not None and contains(parent, before):
                return False
            block = parent.body if child in parent.body else parent.orelse
            if block and isinstance(block[-1], (ast.Continue, ast.Return, ast.Raise)):
                return True
        child = parent
    return False
