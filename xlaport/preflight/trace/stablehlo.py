"""Reading the text of a StableHLO program as torch_xla prints it, with the user's lines. No torch here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

ARGUMENT = re.compile(r'%arg(\d+): (tensor<[^>]*>)(?: \{((?:"[^"]*"|[^{}"])*)\})?')
SHARDING = re.compile(r'mhlo\.sharding = "((?:[^"\\]|\\.)*)"')
OPERATION = re.compile(r"^\s+(?:%[\w:#, ]+ = )?\"?(stablehlo\.[\w.]+)")
LOCATION = re.compile(r"""(?<=[>)\]}]) (?:"[^"\n]*"(?:\((#loc\d+)\))?|(#loc\d+)|\[unknown\])""")
NAMED = re.compile(r"^(#loc\d+) = (.*)$")
FILE = re.compile(r"^(.*):(\d+):\d+$")
TYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "ui8",
    "uint16": "ui16", "uint32": "ui32", "uint64": "ui64", "bool": "i1", "complex64": "complex<f32>", "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
}
"""Names of torch's dtypes -> StableHLO's."""


@dataclass(frozen=True)
class Operation:
    """`said` is the line without its location; `location` a key of `Program.locations`."""

    name: str
    said: str
    location: str


@dataclass(frozen=True)
class Program:
    """Types and shardings of the arguments, the operations in order, and where each location leads."""

    types: tuple[str, ...]
    shardings: tuple[str | None, ...]
    operations: tuple[Operation, ...]
    locations: dict[str, str]

    def line(self, operation: Operation, is_users: Callable[[str], bool]) -> str:
        """`file:line` of the innermost line that is the user's; empty without one."""
        return self.resolved(operation.location, is_users, 0)

    def resolved(self, location: str, is_users: Callable[[str], bool], depth: int) -> str:
        said = self.locations.get(location, "")
        if depth > 200 or not said:
            return ""
        file = FILE.match(said)
        if file:
            return f"{file.group(1)}:{file.group(2)}" if is_users(file.group(1)) else ""
        inner = (self.resolved(inner, is_users, depth + 1) for inner in re.findall(r"#loc\d+", said))
        return next(filter(None, inner), "")


def type_of(shape: tuple[int, ...], dtype: str) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{TYPES.get(dtype, dtype)}>"


def read(text: str) -> Program:
    lines = text.splitlines()
    head = next((line for line in lines if "func.func @main(" in line), "")
    found = [(kind, sharding_in(attributes)) for _, kind, attributes in ARGUMENT.findall(head.partition(") -> ")[0])]
    return Program(tuple(kind for kind, _ in found), tuple(spec for _, spec in found), tuple(operations(lines)), locations(lines))


def sharding_in(attributes: str) -> str | None:
    found = SHARDING.search(attributes)
    return found.group(1) if found else None


def operations(lines: list[str]) -> list[Operation]:
    found = []
    for line in lines:
        named = OPERATION.match(line)
        if named:
            at = LOCATION.search(line)
            found.append(Operation(named.group(1), LOCATION.sub("", line).strip(), (at.group(1) or at.group(2) or "") if at else ""))
    return found


def fingerprint(text: str) -> str:
    """Equal for programs of equal operations, shapes, constants and results, wherever they come from.

    Results that are arguments as they came are left out, and arguments counted by their first use: both follow from which
    finished tensors are alive, and a sync leaves those alone.
    """
    main = text.partition("func.func @main(")[2].partition("\n}")[0]  # tables of locations stand before and after
    head, _, body = LOCATION.sub("", main).partition("\n")
    types = {f"%arg{number}": kind for number, kind, _ in ARGUMENT.findall(head.partition(") -> ")[0])}
    used: dict[str, str] = {}
    body = re.sub(r"^(\s+return )(.*?) : .*$", lambda found: found[1] + computed(found[2]), body, flags=re.M)
    body = re.sub(r"%arg\d+", lambda found: used.setdefault(found[0], f"%in{len(used)} {types.get(found[0], '')}"), body)
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def computed(results: str) -> str:
    return ", ".join(name for name in results.split(", ") if not name.startswith("%arg"))


def locations(lines: list[str]) -> dict[str, str]:
    """Names of locations -> what they say; a call site goes over two lines."""
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        named = NAMED.match(line)
        if named:
            last = named.group(1)
            found[last] = named.group(2)
        elif last and line.startswith(" at "):
            found[last] += line
        else:
            last = ""
    return found
