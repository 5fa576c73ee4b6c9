"""The program as it is given to the compiler: read, outputs and argument attributes as torch_xla's own sync has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xlaport.runtime.places import Libraries

LOCATIONS_CAN_BE_SET = ir.Operation.location.fset is not None
"""Not by jaxlib 0.7: then buffers are named without lines."""

FRAME = re.compile(r'"([^"]*)"\("([^"]*)":(\d+):\d+')


def context() -> Any:
    return mlir.make_ir_context()


def load(context: Any, raw: bytes, request: dict[str, Any]) -> Any:
    """The module of a request; raises `MLIRError` or `ValueError` for what is not StableHLO."""
    module = stablehlo.deserialize_portable_artifact(context, raw) if raw.startswith(b"ML\xefR") else ir.Module.parse(raw.decode())
    main = main_function(module)
    if request["drop_returned_arguments"]:
        drop_returned_arguments(main)
    annotate(main, set(request["donors"]), {int(number): spec for number, spec in request["shardings"].items()})
    if LOCATIONS_CAN_BE_SET:
        libraries = Libraries(tuple(request["libraries"]), all_packages=False)
        for operation in operations(main):
            operation.location = user_location(operation.location, libraries)
    return module


def main_function(module: Any) -> Any:
    found = next((operation for operation in module.body.operations if kind(operation) == "func.func" and name_of(operation) == "main"), None)
    if found is None:
        raise ValueError("it has no function main")
    return found


@dataclass(frozen=True)
class Partitioning:
    """Whose annotations a program has, those of Shardy (jax) or of GSPMD (torch_xla), and whether its results have some."""

    shardy: bool
    results_are_sharded: bool


def partitioning(module: Any) -> Partitioning:
    main = main_function(module)
    results = [ir.DictAttr(entry) for entry in main.attributes["res_attrs"]] if "res_attrs" in main.attributes else []
    shardy = any(kind(operation) == "sdy.mesh" for operation in module.body.operations)
    return Partitioning(shardy, any(name in entry for entry in results for name in ("sdy.sharding", "mhlo.sharding")))


def kind(operation: Any) -> str:
    """`stablehlo.add`; for an operation or its typed view, whose own `name` may be something else."""
    return operation.operation.name


def name_of(function: Any) -> str:
    return str(function.attributes["sym_name"]).strip('"')


def drop_returned_arguments(main: Any) -> None:
    """Take out results that are arguments as they came: live tensors whose data exists, which a sync leaves alone."""
    block = main.regions[0].blocks[0]
    last = list(block.operations)[-1]
    kept = [value for value in last.operands if not isinstance(value.owner, ir.Block)]
    if len(kept) == len(last.operands):
        return
    with ir.InsertionPoint(last), last.location:
        ir.Operation.create(kind(last), operands=kept)
    last.operation.erase()
    inputs = [value.type for value in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [value.type for value in kept]))
    if "res_attrs" in main.attributes:
        del main.attributes["res_attrs"]


def annotate(main: Any, donors: set[int], shardings: dict[int, str]) -> None:
    """Say which arguments may be overwritten and how each is sharded. What the program already says of one stays."""
    arguments = main.regions[0].blocks[0].arguments
    known = list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else [ir.DictAttr.get({})] * len(arguments)
    made = []
    for number, present in enumerate(known):
        attributes = {item.name: item.attr for item in ir.DictAttr(present)}
        if number in donors:
            attributes["jax.buffer_donor"] = ir.BoolAttr.get(True)
        if number in shardings:
            attributes.setdefault("mhlo.sharding", ir.StringAttr.get(shardings[number]))
        made.append(ir.DictAttr.get(attributes))
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(made)


def operations(main: Any) -> Iterator[Any]:
    """All operations of a function, those of nested regions too."""
    for region in main.regions:
        for block in region.blocks:
            for operation in list(block.operations):
                yield operation.operation
                yield from operations(operation)


def user_location(location: Any, libraries: Libraries) -> Any:
    """The operation's name with the innermost line that is the user's, so that every text of the compiler carries it."""
    text = str(location)
    name = re.match(r'loc\("([^"]*)"', text)
    if not name:
        return location
    frames = [(file, line) for _, file, line in FRAME.findall(text) if not libraries.owns(file)]
    operator = re.sub(r"\.\d+$", "", name.group(1).rpartition("/")[2]).replace("__", "::", 1)
    return ir.Location.name(f"{operator} at {frames[0][0]}:{frames[0][1]}" if frames else operator)
