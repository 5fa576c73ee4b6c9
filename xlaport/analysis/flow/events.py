"""What the runtime does at a place of a step, as measured on torch_xla 2.9 (XLA:CPU)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from xlaport.analysis.flow.value import UNKNOWN, Value
from xlaport.findings import Effect


class Kind(str, Enum):
    """Names that rules use in `[match] event`."""

    HOST_READ = "host-read"
    """A value of a device tensor becomes a Python value: `.item()`, `float(x)`, an f-string, `.cpu()`."""

    BRANCH = "branch"
    """`if`, `while`, `assert`, `and`, a filter: Python asks a device tensor for its truth."""

    HOST_OP = "host-op"
    """An op without a lowering: it runs on the host, in its forward or its backward pass."""

    DYNAMIC_SHAPE = "dynamic-shape"
    """The shape of a result depends on values: another graph whenever it changes."""

    CHANGING_SHAPE = "changing-shape"
    """A tensor whose shape is another one from step to step enters the graph."""

    CHANGING_CONSTANT = "changing-constant"
    """A Python number that is baked into the graph (a position, a length, an exponent) changes from step to step."""

    WRONG_SHAPE = "wrong-shape"
    """An op that gives a wrong result, or fails, for a tensor of so many dimensions."""

    RANDOM_BRANCH = "random-branch"
    """Branches on changing Python values multiply the graphs."""


@dataclass(frozen=True)
class Event:
    """`what` names the cause in the user's words. `certain`: the analysis proved that a device tensor or a change is there.

    `hot`: in a step; else once an epoch.
    """

    kind: Kind
    node: ast.AST
    what: str
    effects: tuple[Effect, ...]
    certain: bool
    hot: bool = True
    seen: Mapping[int, Value] = field(default_factory=dict, repr=False, compare=False)
    """What the expressions of the steps were found to be, by `id` of the node."""

    def value_of(self, node: ast.AST) -> Value:
        return self.seen.get(id(node), UNKNOWN)
