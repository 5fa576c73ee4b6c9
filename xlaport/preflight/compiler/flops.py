"""FLOPs of a StableHLO program: matrix products and convolutions, with loops counted as often as they run.

XLA's own count takes a loop whose trip count it does not know once; FSDP makes such loops. Here the program is counted as
it was before partitioning, so the figure is that of all devices together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir

from xlaport.preflight.compiler.program import kind, name_of

CALLS = ("func.call", "call")


@dataclass
class Count:
    """`unknown_loops`: loops without a constant bound, counted once."""

    flops: int = 0
    unknown_loops: int = 0


def count(main: Any, module: Any) -> Count:
    functions = {name_of(operation): operation for operation in module.body.operations if kind(operation) == "func.func"}
    total = Count()
    add(main.regions[0], functions, total, 1)
    return total


def add(region: Any, functions: dict[str, Any], total: Count, times: int) -> None:
    for block in region.blocks:
        for operation in block.operations:
            add_operation(operation.operation, functions, total, times)


def add_operation(operation: Any, functions: dict[str, Any], total: Count, times: int) -> None:
    name = kind(operation)
    if name == "stablehlo.dot_general":
        total.flops += times * product(operation)
    elif name == "stablehlo.convolution":
        total.flops += times * convolution(operation)
    elif name == "stablehlo.while":
        trips = trip_count(operation)
        total.unknown_loops += trips is None
        add(operation.regions[1], functions, total, times * (1 if trips is None else trips))
    elif name in CALLS:
        called = functions.get(str(operation.attributes["callee"]).lstrip("@"))
        if called is not None:
            add(called.regions[0], functions, total, times)
    elif name == "stablehlo.case":
        most = [Count() for _ in operation.regions]
        for branch, found in zip(operation.regions, most):
            add(branch, functions, found, times)
        total.flops += max(found.flops for found in most)


def shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def product(operation: Any) -> int:
    """2 x result x contracted extents."""
    from jaxlib.mlir.dialects import stablehlo

    dimensions = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    left = shape(operation.operands[0])
    return 2 * prod(shape(operation.results[0])) * prod(left[axis] for axis in dimensions.lhs_contracting_dimensions)


def convolution(operation: Any) -> int:
    """2 x result x kernel without its output features, at every position, padding and dilation included."""
    from jaxlib.mlir.dialects import stablehlo

    dimensions = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    kernel = shape(operation.operands[1])
    features = dimensions.kernel_output_feature_dimension
    return 2 * prod(shape(operation.results[0])) * prod(extent for axis, extent in enumerate(kernel) if axis != features)


def trip_count(loop: Any) -> int | None:
    """How often a loop runs that counts up to a constant; None for any other."""
    condition = loop.regions[0].blocks[0]
    compared = list(condition.operations)[-1].operands[0].owner
    if isinstance(compared, ir.Block) or kind(compared) != "stablehlo.compare" or "LT" not in str(compared.attributes["comparison_direction"]):
        return None
    counter, bound = compared.operands
    limit, number = constant(bound), position(counter, condition)
    if limit is None or number is None:
        return None
    start, step = constant(loop.operands[number]), increment(loop.regions[1].blocks[0], number)
    if start is None or not step:
        return None
    return max(0, -(-(limit - start) // step))


def position(value: Any, block: Any) -> int | None:
    return next((number for number, argument in enumerate(block.arguments) if argument == value), None)


def increment(body: Any, number: int) -> int | None:
    added = list(body.operations)[-1].operands[number].owner
    if isinstance(added, ir.Block) or kind(added) != "stablehlo.add":
        return None
    constants = [constant(operand) for operand in added.operands if position(operand, body) != number]
    return constants[0] if len(constants) == 1 else None


def constant(value: Any) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or kind(owner) != "stablehlo.constant":
        return None
    elements = ir.DenseIntElementsAttr(owner.attributes["value"])
    return int(elements[0]) if len(elements) else None
