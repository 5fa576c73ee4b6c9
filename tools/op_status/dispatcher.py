"""What torch_xla's dispatcher registrations say about every aten operator.

The dispatcher resolves each operator for the key XLA; its own table dump names
the kind of kernel it chose. torch_xla installs `xla_fallback` as the backend
fallback of that key, so "backend fallback" means: copied to the host, run by
the CPU kernel, copied back.
"""

from __future__ import annotations

import mmap
import re
from enum import Enum

import torch
import torch_xla

_OUT_SUFFIXES = ("out", "_out", "grad_input")


class Resolution(str, Enum):
    NATIVE = "native"
    """An XLA kernel is registered."""

    CONDITIONAL = "conditional"
    """An XLA kernel is registered, and it calls the host fallback itself for some arguments."""

    COMPOSITE = "composite"
    """Decomposes into other operators, whose resolution decides."""

    FALLBACK = "fallback"
    """No kernel: the backend fallback runs it on the host."""


_KINDS = {
    "kernel": Resolution.NATIVE,
    "math kernel": Resolution.COMPOSITE,
    "default backend kernel": Resolution.COMPOSITE,
    "backend fallback": Resolution.FALLBACK,
}
_XLA_LINE = re.compile(r"^XLA: .*\[(.+)\]$", re.MULTILINE)
_FALLBACK_CALL = b"call_fallback_fn"
_FALLBACK_OP = re.compile(rb"4_ops(\d+)(\w+)")
_SYMBOL_LENGTH = 400


def aten_names() -> list[str]:
    """Every registered aten overload, without `aten::`."""
    names = torch._C._dispatch_get_all_op_names()
    return sorted(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


def conditional_operators() -> frozenset[str]:
    """Operators (`name_overload`) whose XLA kernel contains a call of the host fallback.

    Each such call is a template instance named after the operator, and the
    library keeps its symbol table. An inlined call leaves no symbol, so what is
    measured decides and this only adds.
    """
    found = set()
    with open(torch_xla._XLAC.__file__, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
            at = library.find(_FALLBACK_CALL)
            while at != -1:
                symbol = library[at : at + _SYMBOL_LENGTH].split(b"\0", 1)[0]
                if match := _FALLBACK_OP.search(symbol):
                    found.add(match[2][: int(match[1])].decode())
                at = library.find(_FALLBACK_CALL, at + 1)
    return frozenset(found)


def resolve(name: str, conditional: frozenset[str]) -> Resolution | None:
    """The kernel the dispatcher picks for an overload on XLA; None when it has none at all."""
    match = _XLA_LINE.search(torch._C._dispatch_dump_table(f"aten::{name}"))
    if match is None:
        return None
    kind = _KINDS[match[1]]
    if kind is Resolution.NATIVE and name.replace(".", "_") in conditional:
        return Resolution.CONDITIONAL
    return kind


def resolve_all() -> dict[str, Resolution]:
    conditional = conditional_operators()
    resolved = {name: resolve(name, conditional) for name in aten_names()}
    return {name: kind for name, kind in resolved.items() if kind is not None}


def lists(resolved: dict[str, Resolution]) -> dict[str, list[str]]:
    """Overloads by resolution; the `out=` forms, which follow their functional form, are left out."""
    found: dict[str, list[str]] = {kind.value: [] for kind in Resolution}
    for name, kind in resolved.items():
        if not name.partition(".")[2].endswith(_OUT_SUFFIXES):
            found[kind.value].append(name)
    return found
