"""Graphs of XLA (HloProto) as lists of instructions that say what they compute and which lines of Python they come from.

Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto. torch_xla writes the lines when XLA_HLO_DEBUG
and XLA_IR_DEBUG are set; each instruction then names a frame of `stack_frame_index`, and the frame its caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from xlaport.runtime.places import Place
from xlaport.runtime.profile import wire

MODULE, COMPUTATIONS, STACK_FRAMES, INSTRUCTIONS = 1, 3, 17, 2
OPCODE, SHAPE, METADATA, LITERAL, SLICES, ID, OPERANDS = 2, 3, 7, 8, 17, 35, 36
IDENTITIES = frozenset({1, METADATA, 9, ID, OPERANDS, 37, 38})
"""Fields of an instruction that name it, its parameter and other instructions: they differ between equal graphs."""

OP_TYPE, FRAME = 1, 15

ELEMENTS = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 15: "c64", 16: "bf16", 18: "c128",
}
TUPLE = 13


@dataclass(frozen=True)
class Instruction:
    """`content` is all that is computed, without names; `inputs` how many instructions back each operand is.

    `operator` is torch's (`aten::pow`), empty where XLA made the instruction. `detail` is the value of a constant with
    one element, or the bounds of a slice. `frames` are the lines of Python, innermost first.
    """

    opcode: str
    operator: str
    shape: str
    detail: str
    content: bytes
    inputs: tuple[int, ...]
    frames: tuple[Place, ...]


def instructions(proto: bytes) -> list[Instruction]:
    """All instructions of an HloProto, computation by computation, in the order they were made. Raises wire.Malformed."""
    module = next((value for number, value in wire.fields(proto) if number == MODULE), b"")
    computations, frames = [], Frames(b"")
    for number, value in wire.fields(module):
        if number == COMPUTATIONS:
            computations.append(value)
        elif number == STACK_FRAMES:
            frames = Frames(value)
    found: list[Instruction] = []
    for computation in computations:
        made = [value for number, value in wire.fields(computation) if number == INSTRUCTIONS]
        positions: dict[int, int] = {}
        found += [instruction(value, at, positions, frames) for at, value in enumerate(made)]
    return found


def instruction(message: bytes, at: int, positions: dict[int, int], frames: Frames) -> Instruction:
    opcode = shape = operator = detail = ""
    content: list[bytes] = []
    operands: list[int] = []
    places: tuple[Place, ...] = ()
    for number, value in wire.fields(message):
        if number == OPCODE:
            opcode = value.decode()
        elif number == SHAPE:
            shape = shape_text(value)
        elif number == METADATA:
            operator, places = origin(value, frames)
        elif number == LITERAL:
            detail = literal_text(value)
        elif number == SLICES:
            detail += ("," if detail else "") + slice_text(value)
        elif number == ID:
            positions[wire.signed(value)] = at
        elif number == OPERANDS:
            operands += wire.numbers(value)
        if number not in IDENTITIES:
            content.append(b"%d=%b" % (number, value if isinstance(value, bytes) else str(value).encode()))
    inputs = tuple(at - positions.get(operand, at) for operand in operands)
    return Instruction(opcode, operator, shape, detail, b";".join(content), inputs, places)


def origin(metadata: bytes, frames: Frames) -> tuple[str, tuple[Place, ...]]:
    operator, places = "", ()
    for number, value in wire.fields(metadata):
        if number == OP_TYPE:
            operator = value.decode().replace("__", "::", 1)
        elif number == FRAME:
            places = frames.stack(value)
    return operator, places


class Frames:
    """A StackFrameIndexProto. Its tables count from 1."""

    def __init__(self, message: bytes):
        tables: dict[int, list] = {1: [], 2: [], 3: [], 4: []}
        for number, value in wire.fields(message):
            if number in tables:
                tables[number].append(value.decode() if number < 3 else dict(wire.fields(value)))
        self.files, self.functions, self.locations, self.frames = tables.values()

    def stack(self, frame: int) -> tuple[Place, ...]:
        """The lines of a frame and its callers, innermost first."""
        found: list[Place] = []
        while 0 < frame <= len(self.frames) and len(found) <= len(self.frames):
            entry = self.frames[frame - 1]
            location = self.locations[entry[1] - 1]
            found.append(Place(self.files[location[1] - 1], location[3], self.functions[location[2] - 1]))
            frame = entry.get(2, 0)
        return tuple(found)


# -- what is computed, as text


def shape_text(message: bytes) -> str:
    """`f32[4,8]`, or `(f32[4], s64[])` of a tuple."""
    element, sizes, parts = 0, [], []
    for number, value in wire.fields(message):
        if number == 2:
            element = value
        elif number == 3:
            sizes += wire.numbers(value)
        elif number == 4:
            parts.append(shape_text(value))
    if element == TUPLE:
        return f"({', '.join(parts)})"
    return f"{ELEMENTS.get(element, '?')}[{','.join(map(str, sizes))}]"


def integer(value: bytes | int) -> str:
    found = wire.numbers(value)
    return str(found[0]) if len(found) == 1 else ""


def truth(value: bytes | int) -> str:
    return {"0": "False", "1": "True"}.get(integer(value), "")


def floating(code: str) -> Callable[[bytes], str]:
    return lambda value: f"{struct.unpack(code, value)[0]:.6g}" if len(value) == struct.calcsize(code) else ""


READERS = {2: truth, 4: integer, 5: integer, 6: integer, 7: integer, 8: floating("<f"), 9: floating("<d"), 11: floating("<e")}
"""Field of a literal that holds its elements -> text of the one it has."""


def literal_text(message: bytes) -> str:
    """The value of a literal with one element; empty for others."""
    for number, value in wire.fields(message):
        if number in READERS:
            return READERS[number](value)
    return ""


def slice_text(message: bytes) -> str:
    bounds = dict(wire.fields(message))
    return f"{bounds.get(1, 0)}:{bounds.get(2, 0)}"
