"""Abstract values: what is known of an expression's value, step after step."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import lru_cache, reduce
from typing import NamedTuple


class Sort(Enum):
    __hash__ = object.__hash__  # not that of the name: values are looked up by what they hold, a million times in a large project

    UNKNOWN = "unknown"
    TENSOR = "tensor"
    NUMBER = "number"
    TEXT = "text"
    NONE = "none"
    SEQUENCE = "sequence"
    MAPPING = "mapping"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    SCALER = "scaler"
    DEVICE = "device"
    DISTRIBUTION = "distribution"
    LOADER = "loader"
    FUNCTION = "function"
    CLASS = "class"
    OBJECT = "object"
    SHAPE = "shape"
    """A `torch.Size`, or what `.shape` gives: its elements are Python numbers."""

    OTHER = "other"


class Place(Enum):
    __hash__ = object.__hash__

    DEVICE = "device"
    HOST = "host"
    UNKNOWN = "unknown"
    """In a step or in `forward`, most likely the device."""


class Change(IntEnum):
    """How a Python value, or the shape of a tensor, changes from step to step."""

    __hash__ = int.__hash__

    FIXED = 0
    FEW = 1
    """Takes a handful of values: each costs one graph, and no more."""

    EACH_STEP = 2


class Value(NamedTuple):
    """A named tuple, as a step makes thousands: a frozen data class takes five times as long to make, compare and look up.

    `certain`: place and sort are shown by the code, not guessed from where it stands.

    `dtype`: `bool`, `int`, `float` or empty. `rank`: dimensions of a tensor, None when not known. `change`: of a Python
    value, or of what a tensor on the host holds. `ragged`: how a tensor's shape changes. `origin`: the expression that
    made a tensor of changing shape on the device. `element`: of a sequence, mapping or loader. `items`: of a tuple.
    `constant`: a number, text or bool known exactly, as a tuple of one. `node`: of a function, class or instance.
    `needs_grad`: a backward pass reaches it.
    """

    sort: Sort = Sort.UNKNOWN
    place: Place = Place.UNKNOWN
    certain: bool = False
    dtype: str = ""
    rank: int | None = None
    change: Change = Change.FIXED
    ragged: Change = Change.FIXED
    origin: ast.AST | None = None
    element: Value | None = None
    items: tuple[Value, ...] | None = None
    constant: tuple = ()
    node: ast.AST | None = None
    needs_grad: bool = False
    qualified: str = ""
    owner: Value | None = None
    """The instance a bound method belongs to."""

    @property
    def is_tensor(self) -> bool:
        return self.sort is Sort.TENSOR

    @property
    def on_device(self) -> bool:
        return self.sort is Sort.TENSOR and self.place is not Place.HOST

    def but(self, **changes) -> Value:
        return self._replace(**changes)


UNKNOWN = Value()
NONE = Value(Sort.NONE, certain=True, constant=(None,))
OTHER = Value(Sort.OTHER, certain=True)
DEVICE = Value(Sort.DEVICE, certain=True)


@lru_cache(maxsize=4096)
def number(change: Change = Change.FIXED, dtype: str = "int", constant: tuple = ()) -> Value:
    return Value(Sort.NUMBER, Place.HOST, True, dtype=dtype, change=change, constant=constant)


def text(change: Change = Change.FIXED, constant: tuple = ()) -> Value:
    return Value(Sort.TEXT, Place.HOST, True, change=change, constant=constant)


def tensor(place: Place, certain: bool = True, **known) -> Value:
    return Value(Sort.TENSOR, place, certain, **known)


def sequence(element: Value | None, items: tuple[Value, ...] | None = None, change: Change = Change.FIXED) -> Value:
    return Value(Sort.SEQUENCE, Place.HOST, True, element=element, items=items, change=change)


def join(first: Value | None, second: Value | None) -> Value:
    """What holds of either value."""
    if first is second or first is None or second is None or first == second:
        return second if first is None else first
    if first.sort is Sort.NONE or first.sort is Sort.UNKNOWN:
        return second
    if second.sort is Sort.NONE or second.sort is Sort.UNKNOWN:
        return first
    if first.sort is not second.sort:
        tensors = [value for value in (first, second) if value.is_tensor]
        return tensors[0].but(certain=False) if tensors else Value(certain=False, change=max(first.change, second.change))
    items = tuple(map(join, first.items, second.items)) if first.items and second.items and len(first.items) == len(second.items) else None
    if items is None and (first.items or second.items):  # of another length: what is known of any element stays
        first, second = (value.but(items=None, element=element_of(value)) for value in (first, second))
    return first.but(
        place=first.place if first.place is second.place else Place.UNKNOWN,
        certain=first.certain and second.certain and first.place is second.place,
        dtype=first.dtype if first.dtype == second.dtype else "",
        rank=first.rank if first.rank == second.rank else None,
        change=max(first.change, second.change),
        ragged=max(first.ragged, second.ragged),
        origin=first.origin or second.origin,
        element=join(first.element, second.element) if first.element or second.element else None,
        items=items,
        constant=first.constant if first.constant == second.constant else (),
        node=first.node if first.node is second.node else None,
        needs_grad=first.needs_grad or second.needs_grad,
        qualified=first.qualified if first.qualified == second.qualified else "",
    )


def join_all(values: Iterable[Value]) -> Value | None:
    """What holds of each; None of none."""
    return reduce(join, values, None)


def element_of(value: Value) -> Value:
    """What iterating over a value, or indexing it by a number, gives."""
    return join_all(value.items) if value.items else value.element or UNKNOWN
