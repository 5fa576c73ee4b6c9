"""Which code runs in a step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from xlaport.analysis.facts import FUNCTIONS, enclosing, enclosing_loops
from xlaport.analysis.flow.classes import is_autograd_function
from xlaport.analysis.training import Training, training_of

if TYPE_CHECKING:
    from xlaport.analysis.project import Module

STEP_NAMES = frozenset({"step", "train_step", "training_step", "validation_step", "test_step", "val_step", "eval_step", "train_one_step", "forward", "compute_loss", "loss_fn"})
ENDS = frozenset({"torch_xla.sync", "torch_xla.core.xla_model.mark_step", "torch_xla.core.xla_model.optimizer_step"})


def is_step(function: ast.FunctionDef) -> bool:
    """Functions that run in each step by what they are called; the rest is hot where it is called from hot code."""
    if function.name in STEP_NAMES:
        return True
    owner = function.parent if isinstance(function.parent, ast.ClassDef) else None
    return owner is not None and is_autograd_function(owner) and function.name == "backward"


def is_in_step(call: ast.Call, module: Module) -> bool:
    """In `forward` or another step by its name, or in a loop whose rounds are steps."""
    function = enclosing(call, *FUNCTIONS)
    if function is not None and is_step(function):
        return True
    loops = list(enclosing_loops(call))
    return bool(loops) and not step_loops(module).isdisjoint(map(id, loops))


def step_loops(module: Module) -> set[int]:
    """`id` of each loop whose rounds are steps: they train, evaluate, or end the graph. Found once for all who ask."""
    memo = module.values.memo
    if "step loops" not in memo:
        memo["step loops"] = _step_loops(training_of(module))
    return memo["step loops"]


def is_around_steps(node: ast.AST, steps: set[int]) -> bool:
    """Code of a loop that holds a loop over steps: once an epoch. Behind the last epoch a read costs nothing."""
    loop = next(enclosing_loops(node), None)
    return loop is not None and any(id(inner) in steps for inner in ast.walk(loop))


def _step_loops(training: Training) -> set[int]:
    inside = [*training.backward_calls, *training.names.calls(*ENDS)]
    loops = [*(step.loop for step in training.steps), *training.evaluation_loops, *(next(enclosing_loops(call), None) for call in inside)]
    return {id(loop) for loop in loops if loop is not None}
